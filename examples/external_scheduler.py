"""A whole scheduler: the first ready cluster takes all. Run it with KUBECONFIG naming the hub.

It shares nothing with Stowage but the API: it reads MemberClusters, and writes status.placements
of the Workloads that name it.
"""

import pykube

API = "stowage.dev/v1alpha1"
hub = pykube.HTTPClient(pykube.KubeConfig.from_env())
Workload = pykube.object_factory(hub, API, "Workload")
MemberCluster = pykube.object_factory(hub, API, "MemberCluster")

for event in Workload.objects(hub, namespace=pykube.all).watch():
    spec, status = event.object.obj["spec"], event.object.obj.get("status", {})
    if spec["schedulerName"] != "my-customer-scheduler" or status.get("placements"):
        continue
    ready = [
        cluster.name
        for cluster in MemberCluster.objects(hub)
        for condition in cluster.obj.get("status", {}).get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]
    if ready:
        replicas = spec["targetDeployment"]["spec"].get("replicas", 1)
        placements = [{"cluster": min(ready), "replicas": replicas}]
        event.object.patch({"status": {"placements": placements}}, subresource="status")

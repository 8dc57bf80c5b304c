#!/bin/sh
# dagster-k8s 0.29.27, with dagster 1.13.27 (PyPI): the pod of an op whose config asks for a node, on an instance whose config does as well.
# Guess: the pod needs what both ask for, a node in zone eu-1 with an A100, or at least what the op asks for, which is more specific.
# Seen: as lists are appended to each other, the pod gets the required terms of both, and Kubernetes takes a node that fits one of them: a node
# in eu-1 without the card, or one with it in another zone, so neither the instance nor the op gets what it requires. Under nodeSelector, a
# map, both hold. With merge_behavior SHALLOW the zone is gone.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check dagster-k8s==0.29.27 dagster==1.13.27 kubernetes==36.0.3
cat >"$dir/affinity.py" <<'EOF'
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import DagsterK8sJobConfig, construct_dagster_k8s_job
from kubernetes.client import ApiClient


def required(key, value):
    """Return a pod's config that requires a node with this label."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}}


def pod(*configs):
    """Return the spec of the pod that these configs make, each merged onto those before it."""
    context = K8sContainerContext()
    for config in configs:
        context = context.merge(K8sContainerContext.create_from_config({"k8s": {"run_k8s_config": config}}))
    job = construct_dagster_k8s_job(DagsterK8sJobConfig(job_image="etl:1"), [], "etl", context.run_k8s_config)
    return ApiClient().sanitize_for_serialization(job)["spec"]["template"]["spec"]


def show(title, *configs):
    needed = pod(*configs)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    texts = [" and ".join(f"{each['key']} in {each['values']}" for each in term["matchExpressions"]) for term in needed["nodeSelectorTerms"]]
    print(title + ":", " or ".join(texts))


instance, op = {"pod_spec_config": required("zone", "eu-1")}, {"pod_spec_config": required("gpu", "a100")}
show("the instance", instance)
show("the instance and the op", instance, op)
show("the op with SHALLOW", instance, {**op, "merge_behavior": "SHALLOW"})
selectors = [{"pod_spec_config": {"nodeSelector": {key: value}}} for key, value in (("zone", "eu-1"), ("gpu", "a100"))]
print("nodeSelector of both:", pod(*selectors)["nodeSelector"])
EOF
DAGSTER_DISABLE_TELEMETRY=1 "$dir/venv/bin/python" "$dir/affinity.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
the instance: zone in ['eu-1']
the instance and the op: zone in ['eu-1'] or gpu in ['a100']
the op with SHALLOW: gpu in ['a100']
nodeSelector of both: {'zone': 'eu-1', 'gpu': 'a100'}
EOF

#!/bin/sh
# jupyterhub-kubespawner 7.1.0 (PyPI): the requests of the pod of a user's server with a guarantee of 0 and a limit.
# Guess: the pod requests 0, as it is written, so that servers which mostly wait share the nodes.
# Seen: 0 is taken for no guarantee, and no request is written. The API server then makes the limit the request, so each server asks a node
# for its 4 cpus and 8 GiB, and nodes fill up with a few of them. A guarantee of 0.001 is written, and so is "0" in
# extra_resource_guarantees.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check \
	jupyterhub-kubespawner==7.1.0 jupyterhub==6.1.1 kubernetes-asyncio==36.1.0
cat >"$dir/pod.py" <<'EOF'
import asyncio

from jupyterhub.objects import Hub, Server
from jupyterhub.orm import Spawner
from kubernetes_asyncio.client import ApiClient
from kubespawner import KubeSpawner
from traitlets.config import Config


class User:
    name = "ana"
    id = 1
    url = "/user/ana"
    server = Server(port=8888)
    settings = {}


async def container(**settings):
    """Return the container of the pod that the spawner makes with these settings."""
    hub = Hub(public_host="", hub_ip="0.0.0.0", base_url="/hub/")
    config = Config({"KubeSpawner": settings})
    spawner = KubeSpawner(config=config, hub=hub, user=User(), orm_spawner=Spawner(name=""), api_token="secret", _mock=True)
    pod = await spawner.get_pod_manifest()
    async with ApiClient() as client:
        return client.sanitize_for_serialization(pod)["spec"]["containers"][0]


async def main():
    limits = {"cpu_limit": 4, "mem_limit": "8G"}
    for title, settings in (
        ("guarantees of 0.001 and 1M", {"cpu_guarantee": 0.001, "mem_guarantee": "1M"}),
        ("guarantees of 0", {"cpu_guarantee": 0, "mem_guarantee": 0}),
        ("others of 0", {"extra_resource_guarantees": {"cpu": "0", "memory": "0"}}),
    ):
        made = await container(**limits, **settings)
        print(title + ":", made["resources"])


asyncio.run(main())
EOF
cat >"$dir/kubeconfig" <<'EOF'
apiVersion: v1
kind: Config
current-context: hub
clusters: [{name: hub, cluster: {server: "https://hub.example"}}]
users: [{name: hub, user: {}}]
contexts: [{name: hub, context: {cluster: hub, user: hub}}]
EOF
KUBECONFIG="$dir/kubeconfig" "$dir/venv/bin/python" "$dir/pod.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
guarantees of 0.001 and 1M: {'limits': {'cpu': 4.0, 'memory': 8589934592}, 'requests': {'cpu': 0.001, 'memory': 1048576}}
guarantees of 0: {'limits': {'cpu': 4.0, 'memory': 8589934592}, 'requests': {}}
others of 0: {'limits': {'cpu': 4.0, 'memory': 8589934592}, 'requests': {'cpu': '0', 'memory': '0'}}
EOF

#!/bin/sh
# cloudcoil 0.6.0 (PyPI): what its deletions ask the API server for.
# Guess: delete of a model and delete of the client that client_for() gives do the same, and grace_period_seconds=0 ends a pod at once.
# Seen: the client's delete, remove and delete_all are dry runs unless they are told dry_run=False: the object comes back as of a deletion, and
# stays. The models' methods are none. A grace period of 0 is not sent by either, so a pod gets its own, thirty seconds mostly, and one
# on a node that is gone stays.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check cloudcoil==0.6.0 httpx==0.28.1 pydantic==2.14.4
cat >"$dir/delete.py" <<'EOF'
import httpx
from cloudcoil.client import Config
from cloudcoil.resources import get_dynamic_resource

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web-0"}}
DISCOVERY = {
    "/version": {"major": "1", "minor": "29"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["delete", "deletecollection"]}]},
}


def answer(request):
    if request.url.path in DISCOVERY:
        return httpx.Response(200, json=DISCOVERY[request.url.path])
    print(" ", request.method, request.url.path, dict(request.url.params))
    if request.url.path.endswith("/pods"):
        return httpx.Response(200, json={"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [POD]})
    return httpx.Response(200, json=POD)


config = Config(server="http://hub", token="secret", namespace="shop")
config.client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://hub")
Pod = get_dynamic_resource("Pod", "v1")
with config:
    pod, client = Pod.model_validate(POD), config.client_for(Pod)
    print("the model's")
    Pod.delete("web-0")
    pod.remove()
    Pod.delete_all(label_selector="app=web")
    print("the client's")
    client.delete("web-0")
    client.remove(pod)
    client.delete_all(label_selector="app=web")
    print("with a grace period of 1, and of 0")
    Pod.delete("web-0", grace_period_seconds=1)
    Pod.delete("web-0", grace_period_seconds=0)
    client.delete("web-0", dry_run=False, grace_period_seconds=0)
EOF
KUBECONFIG= "$dir/venv/bin/python" "$dir/delete.py" 2>"$dir/log" >"$dir/seen" || cat "$dir/log"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
the model's
  DELETE /api/v1/namespaces/shop/pods/web-0 {}
  DELETE /api/v1/namespaces/shop/pods/web-0 {}
  DELETE /api/v1/namespaces/shop/pods {'labelSelector': 'app=web'}
the client's
  DELETE /api/v1/namespaces/shop/pods/web-0 {'dryRun': 'All'}
  DELETE /api/v1/namespaces/shop/pods/web-0 {'dryRun': 'All'}
  DELETE /api/v1/namespaces/shop/pods {'dryRun': 'All', 'labelSelector': 'app=web'}
with a grace period of 1, and of 0
  DELETE /api/v1/namespaces/shop/pods/web-0 {'gracePeriodSeconds': '1'}
  DELETE /api/v1/namespaces/shop/pods/web-0 {}
  DELETE /api/v1/namespaces/shop/pods/web-0 {}
EOF

#!/bin/sh
# cloudcoil 0.6.0 (PyPI), with pydantic models of Kubernetes objects: a list that is longer than one page of 50, its default.
# Guess: who iterates over a list gets all objects, page after page, with a selector as without one.
# Seen: whether there is a next page is told by remainingItemCount, which the API server leaves out wherever a selector is given, as
# Kubernetes documents; the continue token is not looked at. So with a label selector or a field selector the list ends after 50 objects, and
# len() says 50.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check cloudcoil==0.6.0 httpx==0.28.1 pydantic==2.14.4
cat >"$dir/lists.py" <<'EOF'
import httpx
from cloudcoil.client import Config
from cloudcoil.resources import get_dynamic_resource

NAMES = [f"web-{number}" for number in range(120)]
DISCOVERY = {
    "/version": {"major": "1", "minor": "29"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]}]},
}


def answer(request):
    """Return what an API server answers: pages of 120 pods, each of which the selectors take."""
    if request.url.path in DISCOVERY:
        return httpx.Response(200, json=DISCOVERY[request.url.path])
    asked = request.url.params
    start = int(asked.get("continue", 0))
    end = min(start + int(asked.get("limit", len(NAMES))), len(NAMES))
    metadata = {"resourceVersion": "7"}
    if end < len(NAMES):
        metadata["continue"] = str(end)
        if "labelSelector" not in asked and "fieldSelector" not in asked:
            metadata["remainingItemCount"] = len(NAMES) - end
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": name}} for name in NAMES[start:end]]
    return httpx.Response(200, json={"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


config = Config(server="http://hub", token="secret", namespace="shop")
config.client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://hub")
Pod = get_dynamic_resource("Pod", "v1")
with config:
    for asked in ({}, {"label_selector": "app=web"}, {"field_selector": "status.phase=Running"}, {"label_selector": "app=web", "limit": 500}):
        print(asked or "all", "gives", len([pod.name for pod in Pod.list(**asked)]), "and len()", len(Pod.list(**asked)))
EOF
KUBECONFIG= "$dir/venv/bin/python" "$dir/lists.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
all gives 120 and len() 120
{'label_selector': 'app=web'} gives 50 and len() 50
{'field_selector': 'status.phase=Running'} gives 50 and len() 50
{'label_selector': 'app=web', 'limit': 500} gives 120 and len() 120
EOF

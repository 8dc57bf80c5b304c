#!/bin/sh
# easykube 0.6.0 (PyPI), an httpx client of the Kubernetes API: lists of more than one page, label selectors with several values, and the
# end of a watch that the API server no longer can go on with.
# Guess: the iterator that list() returns goes on with the continue token, as a limit counts the objects of one answer; a list of values is
# the set selector that the code builds of it; and "410 Gone" reaches the caller as an ApiError, so that it can list anew, as a comment
# there says.
# Seen: with a limit the objects after the first page are missing, and a watch starts beside that part as if it were all. A list of values
# is an AttributeError in each case. The ERROR event that a watch ends with is a KeyError 'resourceVersion', so a controller that waits for
# the ApiError stops after a compaction of etcd.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check easykube==0.6.0 httpx==0.28.1
cat >"$dir/lists.py" <<'EOF'
import json

import httpx
from easykube import SyncClient

NAMES = [f"web-{number}" for number in range(5)]
EXPIRED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}


def answer(request):
    """Return what an API server answers: a page of five pods, or a watch of a version that is gone."""
    asked = request.url.params
    if request.url.path == "/api/v1":
        pods = {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}
        return httpx.Response(200, json={"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]})
    print("  asked", request.url.query.decode() or "all")
    if "watch" in asked:
        return httpx.Response(200, text=json.dumps({"type": "ERROR", "object": EXPIRED}) + "\n")
    start = int(asked.get("continue", 0))
    end = min(start + int(asked.get("limit", len(NAMES))), len(NAMES))
    metadata = {"resourceVersion": "7"}
    if end < len(NAMES):
        metadata |= {"continue": str(end), "remainingItemCount": len(NAMES) - end}
    items = [{"metadata": {"name": name, "resourceVersion": "6"}} for name in NAMES[start:end]]
    return httpx.Response(200, json={"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


def show(title, call):
    print(title)
    try:
        print("  gives", call())
    except Exception as error:
        print("  raises", type(error).__name__, error)


def watched():
    pods, events = resource.watch_list()
    return len(pods), list(events)


resource = SyncClient(base_url="http://hub", transport=httpx.MockTransport(answer)).api("v1").resource("pods")
show("all", lambda: [pod.metadata.name for pod in resource.list()])
show("limit 2", lambda: [pod.metadata.name for pod in resource.list(limit=2)])
show("limit 2, to be watched", lambda: len(resource.watch_list(limit=2)[0]))
show("tier web", lambda: len(list(resource.list(labels={"tier": "web"}))))
show("tier web or db", lambda: len(list(resource.list(labels={"tier": ["web", "db"]}))))
show("a watch that expires", watched)
EOF
"$dir/venv/bin/python" "$dir/lists.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
all
  asked all
  gives ['web-0', 'web-1', 'web-2', 'web-3', 'web-4']
limit 2
  asked limit=2
  gives ['web-0', 'web-1']
limit 2, to be watched
  asked limit=2
  gives 2
tier web
  asked labelSelector=tier%3Dweb
  gives 5
tier web or db
  raises AttributeError 'list' object has no attribute 'join'
a watch that expires
  asked all
  asked watch=1&resourceVersion=7&allowWatchBookmarks=true
  raises KeyError 'resourceVersion'
EOF

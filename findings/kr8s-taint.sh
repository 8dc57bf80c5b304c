#!/bin/sh
# kr8s 0.20.15 (PyPI): to take a taint from a node, which is written as an effect with a minus behind it.
# Guess: dedicated:NoSchedule- removes that taint alone, as with `kubectl taint`.
# Seen: all taints of the key are removed: that of NoExecute goes as well, and pods come to the node that it was to keep free.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15
cat >"$dir/taint.py" <<'EOF'
import asyncio

from kr8s.asyncio.objects import Node


class Kept(Node):
    async def async_refresh(self):
        """Keep the object as it is: no server runs here."""

    async def async_patch(self, patch, **_):
        print("written:", patch)


taints = [{"key": "dedicated", "value": "db", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
node = Kept({"metadata": {"name": "a"}, "spec": {"taints": taints}}, api=object())
asyncio.run(node.taint("dedicated", "db", effect="NoSchedule-"))
EOF
"$dir/venv/bin/python" "$dir/taint.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
written: {'spec': {'taints': []}}
EOF

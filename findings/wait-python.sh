#!/bin/sh
# kr8s 0.20.15 and lightkube 1.0.1 (PyPI): wait until an object has a condition, right after its spec was changed.
# Guess: as `kubectl wait` of 0.36.3 does, they wait on while the condition is of an older generation than metadata.generation.
# Seen: the answer of before the change ends both waits: what comes next begins on a queue that is not yet there. To kr8s
# jsonpath='{.status.full}'=true never holds, as it compares with Python's "True"; kubectl takes true.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15 lightkube==1.0.1
cat >"$dir/wait.py" <<'EOF'
import asyncio
from types import SimpleNamespace

import lightkube
from kr8s.asyncio.objects import new_class
from lightkube.generic_resource import create_namespaced_resource

ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
queue = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "orders", "namespace": "shop", "generation": 2}}
queue["status"] = {"observedGeneration": 1, "full": True, "conditions": [ready]}


class Queue(new_class("Queue", "example.com/v1", plural="queues")):
    ended = True

    async def async_refresh(self):
        """Keep the object as it is: no server runs here."""

    async def async_watch(self):
        """Note that the wait goes on; nothing comes."""
        self.ended = False
        return
        yield


def seen_by_kr8s(condition):
    kept = Queue(queue, api=SimpleNamespace(namespace="shop"))
    asyncio.run(kept.wait(condition))
    return "ends" if kept.ended else "waits"


class Client(lightkube.Client):
    def watch(self, kind, **_):
        yield "ADDED", kind.from_dict(queue)


member = {"clusters": [{"name": "a", "cluster": {"server": "https://example.com"}}], "users": [{"name": "a", "user": {}}]}
member |= {"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}
kind = create_namespaced_resource("example.com", "v1", "Queue", "queues")
waited = Client(config=lightkube.KubeConfig.from_dict(member)).wait(kind, "orders", namespace="shop", for_conditions=["Ready"])
print("lightkube: Ready", "ends" if waited else "waits")
for condition in ("condition=Ready", "jsonpath='{.status.full}'=true", "jsonpath='{.status.full}'=True"):
    print("kr8s:", condition, seen_by_kr8s(condition))
EOF
"$dir/venv/bin/python" "$dir/wait.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
lightkube: Ready ends
kr8s: condition=Ready ends
kr8s: jsonpath='{.status.full}'=true waits
kr8s: jsonpath='{.status.full}'=True ends
EOF

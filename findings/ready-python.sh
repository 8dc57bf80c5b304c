#!/bin/sh
# pykube-ng 23.6.0 and kr8s 0.20.15 (PyPI): `ready` of a Deployment of three replicas in the middle of a rollout.
# Guess: true once three pods of the new template are ready, which is what `kubectl rollout status` waits for.
# Seen: to pykube-ng all are ready when they are updated, were none of them ready; with no replicas wanted it raises KeyError.
# kr8s counts ready pods of any template: a rollout whose new image does not exist is ready, and stays so.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kr8s==0.20.15 pykube-ng==23.6.0
cat >"$dir/ready.py" <<'EOF'
import asyncio

import pykube
from kr8s.asyncio.objects import Deployment


class Kept(Deployment):
    async def async_refresh(self):
        """Keep the object as it is: no server runs here."""


def seen_by_pykube(object):
    try:
        return pykube.Deployment(None, object).ready
    except KeyError as error:
        return f"KeyError {error}"


for case, replicas, status in (
    ("done", 3, {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}),
    ("none ready", 3, {"replicas": 3, "updatedReplicas": 3, "unavailableReplicas": 3}),
    ("bad image", 3, {"replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 3}),
    ("no replicas", 0, {}),
):
    metadata = {"name": "web", "namespace": "default", "generation": 2}
    object = {"metadata": metadata, "spec": {"replicas": replicas}, "status": {"observedGeneration": 2, **status}}
    print(f"{case}: pykube-ng {seen_by_pykube(object)}, kr8s {asyncio.run(Kept(object).ready())}")
EOF
"$dir/venv/bin/python" "$dir/ready.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
done: pykube-ng True, kr8s True
none ready: pykube-ng True, kr8s False
bad image: pykube-ng False, kr8s True
no replicas: pykube-ng KeyError 'updatedReplicas', kr8s True
EOF

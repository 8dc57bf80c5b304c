#!/bin/sh
# pykube-ng 23.6.0 (PyPI): update() of an object from which a label, a finalizer and a container were removed.
# Guess: the API server gets the object as it is in Python, or a patch that removes the three.
# Seen: update() first merges in what was read, lists by index: the label stays, and a list without its first item has its last one twice,
# the finalizer b and the container main. With is_strategic=False lists are right. The request is a merge patch, which keeps the label even
# then, as nothing in it is null.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check pykube-ng==23.6.0
cat >"$dir/update.py" <<'EOF'
import json

import pykube

pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "track": "canary"}}}
pod["metadata"]["finalizers"] = ["example.com/a", "example.com/b"]
pod["spec"] = {"containers": [{"name": "proxy"}, {"name": "main"}]}


class Answer:
    @staticmethod
    def json():
        return pod


class Api:
    @staticmethod
    def raise_for_status(_):
        """Take each answer."""

    @staticmethod
    def patch(*, data, headers, **_):
        sent = json.loads(data)
        print(headers["Content-Type"], sent["metadata"]["labels"], sent["metadata"]["finalizers"], sent["spec"]["containers"])
        return Answer()


for settings in ({}, {"is_strategic": False}):
    changed = pykube.Pod(Api(), pod)
    changed.obj = json.loads(json.dumps(pod))
    del changed.labels["track"]
    changed.metadata["finalizers"].remove("example.com/a")
    del changed.obj["spec"]["containers"][0]
    print("update", settings)
    changed.update(**settings)
EOF
"$dir/venv/bin/python" "$dir/update.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
update {}
application/merge-patch+json {'app': 'web', 'track': 'canary'} ['example.com/b', 'example.com/b'] [{'name': 'main'}, {'name': 'main'}]
update {'is_strategic': False}
application/merge-patch+json {'app': 'web'} ['example.com/b'] [{'name': 'main'}]
EOF

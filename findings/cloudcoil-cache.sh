#!/bin/sh
# cloudcoil 0.6.0 (PyPI): the lists of a Config with a cache, beside those of one without.
# Guess: as the README has nothing but cache=True added to the code, a list finds the same objects with the cache, only sooner.
# Seen: the cache takes in the first page of 500 objects and no other, and says that it is synced. It knows selectors of one label alone: any
# other selector of equality, existence or a set finds all objects, and "!=" finds none; a field selector other than that of a name or a
# namespace finds all as well. A list without a namespace, which is one of the default namespace elsewhere, goes over all namespaces. Nothing
# of this is told, so what is to be deleted by "app=web,track=canary" is all that the cache holds.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check cloudcoil==0.6.0 httpx==0.28.1 pydantic==2.14.4
cat >"$dir/lists.py" <<'EOF'
import threading
import time

import httpx
from cloudcoil.client import Config
from cloudcoil.caching import Cache  # imported before the client, it fails
from cloudcoil.resources import get_dynamic_resource

DISCOVERY = {
    "/version": {"major": "1", "minor": "29"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}]},
}
TESTS = {
    "app=web": lambda pod: pod["metadata"]["labels"]["app"] == "web",
    "app==web": lambda pod: pod["metadata"]["labels"]["app"] == "web",
    "app=web,track=canary": lambda pod: pod["metadata"]["labels"] == {"app": "web", "track": "canary"},
    "app in (db)": lambda pod: pod["metadata"]["labels"]["app"] == "db",
    "!app": lambda pod: "app" not in pod["metadata"]["labels"],
    "app!=web": lambda pod: pod["metadata"]["labels"]["app"] != "web",
    "status.phase=Failed": lambda pod: pod["status"]["phase"] == "Failed",
}


def pods(count):
    """Return pods of two namespaces, half of them web, a fourth of these canaries, none failed."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": ("shop", "shop-next")[number // 8 % 2],
                "name": f"pod-{number}",
                "labels": {"app": ("web", "db")[number % 2], "track": "canary" if number % 8 == 0 else "stable"},
            },
            "status": {"phase": "Running"},
        }
        for number in range(count)
    ]


def server(objects):
    """Return an API server of these pods; its watches tell nothing."""

    def answer(request):
        if request.url.path in DISCOVERY:
            return httpx.Response(200, json=DISCOVERY[request.url.path])
        asked = request.url.params
        if "watch" in asked:
            threading.Event().wait()
        tests = [TESTS[asked[key]] for key in ("labelSelector", "fieldSelector") if key in asked]
        items = [pod for pod in objects if all(test(pod) for test in tests)]
        if "/namespaces/" in request.url.path:
            items = [pod for pod in items if f"/namespaces/{pod['metadata']['namespace']}/" in request.url.path]
        start, limit = int(asked.get("continue", 0)), int(asked["limit"])
        metadata = {"resourceVersion": "7"}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
            if not tests:
                metadata["remainingItemCount"] = len(items) - start - limit
        return httpx.Response(200, json={"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items[start : start + limit]})

    return httpx.Client(transport=httpx.MockTransport(answer), base_url="http://hub")


def found(cache, count, questions):
    """Return how many of the pods each question finds, with a cache of pods or without one."""
    config = Config(server="http://hub", token="secret", namespace="shop", cache=Cache(resources=[Pod]) if cache else False)
    config.client = server(pods(count))
    config.activate()
    while cache and not config.cache.get_informer(Pod, sync=True).has_synced():
        time.sleep(0.01)
    return [len(list(Pod.list(**question))) for question in questions]


Pod = get_dynamic_resource("Pod", "v1")
everywhere = {"all_namespaces": True}
of_labels = [{**everywhere, "label_selector": text} for text in list(TESTS)[:-1]]
questions = [{}, everywhere, *of_labels, {**everywhere, "field_selector": "status.phase=Failed"}]
for count, asked in ((32, questions), (1200, [everywhere])):
    for question, plain, cached in zip(asked, found(False, count, asked), found(True, count, asked), strict=True):
        named = [f"{key} {value}" for key, value in question.items() if key.endswith("selector")]
        title = ", ".join(named) or ("all namespaces" if question else "no namespace")
        print(f"of {count} pods, {title}: {plain}, with the cache {cached}")
EOF
KUBECONFIG= "$dir/venv/bin/python" "$dir/lists.py" >"$dir/seen" 2>"$dir/log" || cat "$dir/log"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
of 32 pods, no namespace: 16, with the cache 32
of 32 pods, all namespaces: 32, with the cache 32
of 32 pods, label_selector app=web: 16, with the cache 16
of 32 pods, label_selector app==web: 16, with the cache 32
of 32 pods, label_selector app=web,track=canary: 4, with the cache 32
of 32 pods, label_selector app in (db): 16, with the cache 32
of 32 pods, label_selector !app: 0, with the cache 32
of 32 pods, label_selector app!=web: 16, with the cache 0
of 32 pods, field_selector status.phase=Failed: 0, with the cache 32
of 1200 pods, all namespaces: 1200, with the cache 500
EOF

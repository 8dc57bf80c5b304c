#!/bin/sh
# apache-airflow-providers-cncf-kubernetes 10.25.0, with apache-airflow 3.3.2 (PyPI): the pod that the Kubernetes executor makes of the pod
# template and the pod_override of a task.
# Guess: what the override sets wins, also 0, false and an empty list, and containers are matched by their name, as init containers are.
# Seen: 0, false, {} and [] of the override are taken for not set, and the template's value stays: the grace period, the links of Services, the
# priority, the node selector, the tolerations. Containers are matched by their place: an override of the second container by its name turns
# the first one, that of the task, into it, so that two have one name and "base" is gone.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check \
	apache-airflow==3.3.2 apache-airflow-providers-cncf-kubernetes==10.25.0 kubernetes==36.0.3
cat >"$dir/merge.py" <<'EOF'
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from kubernetes.client import V1Container, V1Pod, V1PodSpec, V1Toleration


def merge(**override):
    """Return the spec of the pod of a task with this override, whose containers default to those of the template."""
    template = V1PodSpec(
        containers=[V1Container(name="base", image="airflow:3"), V1Container(name="git-sync", image="git-sync:4")],
        init_containers=[V1Container(name="wait", image="wait:1"), V1Container(name="fetch", image="fetch:1")],
        termination_grace_period_seconds=30,
        enable_service_links=True,
        priority=1000,
        node_selector={"pool": "batch"},
        tolerations=[V1Toleration(key="batch", operator="Exists")],
    )
    pod = V1Pod(spec=V1PodSpec(**{"containers": [], **override}))
    return PodGenerator.reconcile_pods(V1Pod(spec=template), pod).spec


for field, value in {"termination_grace_period_seconds": 5, "priority": 2000, "node_selector": {"pool": "web"}}.items():
    print(field, value, "gives", getattr(merge(**{field: value}), field))
for field, value in {
    "termination_grace_period_seconds": 0,
    "enable_service_links": False,
    "priority": 0,
    "node_selector": {},
    "tolerations": [],
}.items():
    kept = getattr(merge(**{field: value}), field)
    print(field, value, "gives", [each.key for each in kept] if field == "tolerations" else kept)
for field, name in (("init_containers", "fetch"), ("containers", "git-sync")):
    merged = getattr(merge(**{field: [V1Container(name=name, image=f"{name}:9")]}), field)
    print(field, "with", name, "gives", [(each.name, each.image) for each in merged])
EOF
AIRFLOW_HOME="$dir" "$dir/venv/bin/python" "$dir/merge.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
termination_grace_period_seconds 5 gives 5
priority 2000 gives 2000
node_selector {'pool': 'web'} gives {'pool': 'web'}
termination_grace_period_seconds 0 gives 30
enable_service_links False gives True
priority 0 gives 1000
node_selector {} gives {'pool': 'batch'}
tolerations [] gives ['batch']
init_containers with fetch gives [('wait', 'wait:1'), ('fetch', 'fetch:9')]
containers with git-sync gives [('git-sync', 'git-sync:9'), ('git-sync', 'git-sync:4')]
EOF

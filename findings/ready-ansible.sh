#!/bin/sh
# kubernetes.core 6.2.0, Ansible's collection, in ansible 12.3.0 (PyPI): when `wait: true` of the module k8s takes an object for ready. Each
# state is one that the controllers of Kubernetes and the kubelet write, and the status has observed the last change.
# Guess: what `kubectl rollout status` and `kubectl wait` make of it. A Deployment is ready once its new pods serve, a StatefulSet too, with
# OnDelete once its pods serve, with a partition once those above it are new, and a Pod once its condition Ready holds or it is done.
# Seen: a Deployment with the strategy Recreate is ready as its change begins, by its old pods, and a paused one too: updatedReplicas is not
# read. A StatefulSet with OnDelete is ready by the number of its pods, all of which may crash. One with a partition never is, nor is a Pod that
# ran to its end, so the task fails at its timeout. A Pod whose readiness gate or sidecar holds it back is ready.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --no-compile --disable-pip-version-check ansible==12.3.0 kubernetes==36.0.3
cat >"$dir/ready.py" <<'EOF'
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.waiter import RESOURCE_PREDICATES
from kubernetes.dynamic.resource import ResourceInstance


def ready(title, kind, spec, status):
    """Print what the wait makes of an object of the kind whose second generation has this spec and status."""
    fields = {"kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": {"observedGeneration": 2, **status}}
    print(title, RESOURCE_PREDICATES[kind](ResourceInstance(None, fields)))


old = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}
ready("Deployment, Recreate, 3 old pods:", "Deployment", {"replicas": 3, "strategy": {"type": "Recreate"}}, old)
ready("Deployment, paused, 3 old pods:", "Deployment", {"replicas": 3, "paused": True}, old)
new = {**old, "updatedReplicas": 3}
ready("Deployment, 3 new pods:", "Deployment", {"replicas": 3}, new)
ready("Deployment, 2 of 3 available:", "Deployment", {"replicas": 3}, {**new, "availableReplicas": 2, "unavailableReplicas": 1})

ready("StatefulSet, OnDelete, 0 of 3 ready:", "StatefulSet", {"replicas": 3, "updateStrategy": {"type": "OnDelete"}}, {"replicas": 3})
partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
status = {"replicas": 3, "readyReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1, "currentRevision": "web-1", "updateRevision": "web-2"}
ready("StatefulSet, partition 2, 1 of 1 new:", "StatefulSet", {"replicas": 3, "updateStrategy": partition}, status)

done = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "ready": False, "state": {"terminated": {"exitCode": 0}}}]}
ready("Pod, done:", "Pod", {}, done)
running = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]}
gated = {**running, "conditions": [{"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]}
ready("Pod, not Ready by its gate:", "Pod", {"readinessGates": [{"conditionType": "example.com/behind-lb"}]}, gated)
conditions = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
held = {**running, "conditions": conditions, "initContainerStatuses": [{"name": "proxy", "ready": False, "started": True}]}
ready("Pod, not Ready by its sidecar:", "Pod", {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}, held)
EOF
"$dir/venv/bin/python" "$dir/ready.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Deployment, Recreate, 3 old pods: True
Deployment, paused, 3 old pods: True
Deployment, 3 new pods: True
Deployment, 2 of 3 available: False
StatefulSet, OnDelete, 0 of 3 ready: True
StatefulSet, partition 2, 1 of 1 new: False
Pod, done: False
Pod, not Ready by its gate: True
Pod, not Ready by its sidecar: True
EOF

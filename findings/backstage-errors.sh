#!/bin/sh
# @backstage/plugin-kubernetes-common 0.9.13 (npm): detectErrors, which finds what Backstage reports of a component in each of its clusters.
# Guess: what `kubectl describe` shows as broken is an error: an init container that crashes, a pod that no node takes or that was evicted,
# replicas that a quota forbids, an autoscaler without metrics.
# Seen: none of these is. Of a pod neither init containers nor phase and conditions are read; of a Deployment only conditions that are False,
# and ReplicaFailure is True where it fails; of an autoscaler only whether it is at its maximum. So one that is held at 3 of 3 is an error, of
# a higher rank than a container that crashes, and a container that restarted once, a year ago, is one for good.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @backstage/plugin-kubernetes-common@0.9.13 >log 2>&1 || cat log
cat >detect.mjs <<'EOF'
import { detectErrors } from "@backstage/plugin-kubernetes-common";

const waiting = (reason, message) => ({ name: "main", ready: false, restartCount: 0, state: { waiting: { reason, message } } });
const pod = (status) => ["pods", { metadata: { name: "web" }, spec: { containers: [{ name: "main" }] }, status }];
const condition = (type, status, reason, message) => ({ type, status, reason, message });
const autoscaler = (status) => ["horizontalpodautoscalers", { spec: { minReplicas: 3, maxReplicas: 3 }, status }];
const back = "back-off 5m0s restarting failed container";
const ended = { lastState: { terminated: { reason: "Error", exitCode: 1, finishedAt: "2025-11-01T00:00:00Z" } } };
const cases = {
  "a container crashes": pod({ containerStatuses: [waiting("CrashLoopBackOff", back)] }),
  "an init container crashes": pod({
    phase: "Pending", containerStatuses: [waiting("PodInitializing")],
    initContainerStatuses: [{ ...waiting("CrashLoopBackOff", back), name: "migrate", restartCount: 40 }],
  }),
  "no node takes it": pod({
    phase: "Pending", conditions: [condition("PodScheduled", "False", "Unschedulable", "0/9 nodes are available: 9 Insufficient cpu.")],
  }),
  "it was evicted": pod({ phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." }),
  "it ended with an error": pod({
    phase: "Failed", containerStatuses: [{ name: "main", ready: false, restartCount: 0, state: { terminated: { exitCode: 1, reason: "Error" } } }],
  }),
  "it restarted once, a year ago": pod({
    phase: "Running", containerStatuses: [{ name: "main", ready: true, restartCount: 1, state: { running: {} }, ...ended }],
  }),
  "a quota forbids replicas": ["deployments", { status: { conditions: [
    condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
    condition("ReplicaFailure", "True", "FailedCreate", 'pods "web" is forbidden: exceeded quota: compute'),
  ] } }],
  "it has no metrics": autoscaler({ currentReplicas: 2, conditions: [condition("ScalingActive", "False", "FailedGetResourceMetric", "no metrics")] }),
  "it is held at 3 of 3": autoscaler({ currentReplicas: 3, conditions: [condition("ScalingActive", "True", "ValidMetricFound", "")] }),
};
for (const [name, [type, object]] of Object.entries(cases)) {
  const found = detectErrors({ items: [{ cluster: { name: "paris" }, resources: [{ type, resources: [object] }] }] }).get("paris");
  console.log(`${type}: ${name}:`, found.map((error) => `${error.type} (${error.severity})`).join(", ") || "no error");
}
EOF
node detect.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
pods: a container crashes: container-waiting (4)
pods: an init container crashes: no error
pods: no node takes it: no error
pods: it was evicted: no error
pods: it ended with an error: no error
pods: it restarted once, a year ago: containers-restarting (4)
deployments: a quota forbids replicas: no error
horizontalpodautoscalers: it has no metrics: no error
horizontalpodautoscalers: it is held at 3 of 3: hpa-max-current-replicas (8)
EOF

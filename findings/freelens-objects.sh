#!/bin/sh
# @freelensapp/kube-object and @freelensapp/utilities 1.9.0 (npm), with which Freelens, a desktop program for many clusters, reads objects.
# Guess: what `kubectl get` shows: the size of a volume, the restarts of a pod with those of its sidecars, the phase, and whether a Job is
# Complete or Failed, the two conditions that the comment of getCondition() names.
# Seen: suffixes without an i count for nothing: a volume of 100G has 100 bytes, and so has one of 100 bytes. A sidecar restarted 17 times is
# no restart. A pod that runs and is not ready is Pending, as one that has no node. A Job that is done is SuccessCriteriaMet, and one that
# fails FailureTarget, as the Job controller adds these conditions before the last ones since Kubernetes 1.31.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @freelensapp/kube-object@1.9.0 @freelensapp/utilities@1.9.0 >log || cat log
cat >show.cjs <<'EOF'
const { Job, PersistentVolume, Pod } = require("@freelensapp/kube-object");
const { bytesToUnits } = require("@freelensapp/utilities");

function object(kind, spec, status) {
  return { apiVersion: "v1", kind, metadata: { name: "web", uid: "1", resourceVersion: "1", selfLink: "/web" }, spec, status };
}

for (const storage of ["1.5Gi", "100G", "100"]) {
  const bytes = new PersistentVolume(object("PersistentVolume", { capacity: { storage } })).getCapacity(true);
  console.log("volume of", storage, bytes, bytesToUnits(bytes));
}

const containers = [{ name: "main", image: "main:1" }];
const unready = [{ type: "Ready", status: "False", reason: "ContainersNotReady" }];
const running = { phase: "Running", conditions: unready, containerStatuses: [{ name: "main", ready: true, restartCount: 2, state: { running: {} } }] };
const back = { waiting: { reason: "CrashLoopBackOff" } };
const sidecar = { ...running, initContainerStatuses: [{ name: "proxy", ready: false, restartCount: 17, state: back }] };
const spec = { containers, initContainers: [{ name: "proxy", image: "proxy:1", restartPolicy: "Always" }] };
const unplaced = { phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }] };
for (const [title, pod] of [["runs, its sidecar crashes", object("Pod", spec, sidecar)], ["has no node", object("Pod", spec, unplaced)]]) {
  console.log(title + ":", new Pod(pod).getStatus(), "restarts", new Pod(pod).getRestartsCount());
}

for (const types of [["SuccessCriteriaMet", "Complete"], ["FailureTarget", "Failed"]]) {
  const conditions = types.map((type) => ({ type, status: "True" }));
  const job = new Job(object("Job", { template: { spec: { containers } } }, { conditions }));
  console.log("Job with", types.join(" and "), "is", job.getCondition().type);
}
EOF
node show.cjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
volume of 1.5Gi 1610612736 1.5GiB
volume of 100G 100 100.0B
volume of 100 100 100.0B
runs, its sidecar crashes: Pending restarts 2
has no node: Pending restarts 0
Job with SuccessCriteriaMet and Complete is SuccessCriteriaMet
Job with FailureTarget and Failed is FailureTarget
EOF

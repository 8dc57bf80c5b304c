#!/bin/sh
# github.com/rancher/wrangler/v3 v3.8.0: summary.Summarize, by which Rancher shows an object of any kind as active, changing or in error.
# Guess: an error is what needs a hand, as a pod that crashes or was evicted; what starts is changing, what is switched off or done is neither.
# Seen: conditions count by their names, whatever the kind. A pod is an error while its init containers run, a HorizontalPodAutoscaler while
# its Deployment has no replicas, and a MachineConfigPool because it is not updating. A pod that crashes is changing; an evicted pod, a lost
# PersistentVolumeClaim and a Gateway that was not accepted are no errors.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >objects.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: starts}
status:
  phase: Pending
  conditions:
  - {type: PodScheduled, status: "True"}
  - {type: Initialized, status: "False", reason: ContainersNotInitialized, message: "containers with incomplete status: [migrate]"}
  - {type: Ready, status: "False", reason: ContainersNotReady}
---
apiVersion: v1
kind: Pod
metadata: {name: crashes}
status:
  phase: Running
  conditions:
  - {type: PodScheduled, status: "True"}
  - {type: Initialized, status: "True"}
  - {type: Ready, status: "False", reason: ContainersNotReady, message: "containers with unready status: [web]"}
  containerStatuses:
  - {name: web, ready: false, restartCount: 9, state: {waiting: {reason: CrashLoopBackOff}}}
---
apiVersion: v1
kind: Pod
metadata: {name: evicted}
status: {phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: idle}
status:
  currentReplicas: 0
  desiredReplicas: 0
  conditions:
  - {type: AbleToScale, status: "True", reason: SucceededGetScale}
  - {type: ScalingActive, status: "False", reason: ScalingDisabled, message: "scaling is disabled since the replica count of the target is zero"}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: done}
status:
  conditions:
  - {type: Updated, status: "True"}
  - {type: Updating, status: "False"}
  - {type: Degraded, status: "False"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: lost}
status: {phase: Lost}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: refused, generation: 1}
status:
  conditions:
  - {type: Accepted, status: "False", reason: Invalid, observedGeneration: 1, message: "a listener is not valid"}
  - {type: Programmed, status: "False", reason: Invalid, observedGeneration: 1, message: "a listener is not valid"}
EOF
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/rancher/wrangler/v3/pkg/summary"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func main() {
	file, err := os.ReadFile("objects.yaml")
	if err != nil {
		panic(err)
	}
	for _, document := range bytes.Split(file, []byte("---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			panic(err)
		}
		seen := summary.Summarize(object)
		fmt.Printf("%s %s: %s, error %v, changing %v\n", object.GetKind(), object.GetName(), seen.State, seen.Error, seen.Transitioning)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/rancher/wrangler/v3@v3.8.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Pod starts: initializing, error true, changing false
Pod crashes: unavailable, error false, changing true
Pod evicted: failed, error false, changing false
HorizontalPodAutoscaler idle: pending, error true, changing false
MachineConfigPool done: updating, error true, changing false
PersistentVolumeClaim lost: lost, error false, changing false
Gateway refused: active, error false, changing false
EOF

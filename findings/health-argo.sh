#!/bin/sh
# github.com/argoproj/argo-cd/gitops-engine v0.0.0-20260914071520-c9c369efcc5b: the health by which Argo CD ends a hook or a wave.
# Guess: a Job that runs is Progressing until it is Complete, one that a queue let go as well; a suspended CronJob is Suspended, as
# the comment on that word says; a HorizontalPodAutoscaler without metrics and a DaemonSet without a ready pod are not Healthy.
# Seen: a Job that was suspended at first is Healthy while it runs, as the condition Suspended counts as an end though it is False;
# what waits for it goes on. A suspended CronJob has no health at all. An autoscaler is Healthy if the metrics that it lacks are those
# of a container, and a DaemonSet if it is updated OnDelete, without one pod. It compiles for minutes, with k8s.io/kubernetes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	for _, each := range [][2]string{
		{"a Job that runs", `{"apiVersion":"batch/v1","kind":"Job","spec":{},"status":{"active":1,"ready":1}}`},
		{"a resumed Job that runs", `{"apiVersion":"batch/v1","kind":"Job","spec":{"suspend":false},"status":{"active":1,"ready":1,
			"conditions":[{"type":"Suspended","status":"False","reason":"JobResumed"}]}}`},
		{"a suspended CronJob", `{"apiVersion":"batch/v1","kind":"CronJob","spec":{"suspend":true},"status":{}}`},
		{"no metrics of pods", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","status":{"conditions":[
			{"type":"AbleToScale","status":"True"},{"type":"ScalingActive","status":"False","reason":"FailedGetResourceMetric"}]}}`},
		{"no metrics of a container", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","status":{"conditions":[
			{"type":"AbleToScale","status":"True"},{"type":"ScalingActive","status":"False","reason":"FailedGetContainerResourceMetric"}]}}`},
		{"no pod is ready", `{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"updateStrategy":{"type":"RollingUpdate"}},
			"status":{"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberUnavailable":3}}`},
		{"no pod is ready", `{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"updateStrategy":{"type":"OnDelete"}},
			"status":{"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberUnavailable":3}}`},
	} {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(each[1])); err != nil {
			panic(err)
		}
		said, err := health.GetResourceHealth(object, nil)
		if err != nil {
			panic(err)
		}
		if said == nil {
			said = &health.HealthStatus{Status: "none"}
		}
		fmt.Printf("%s: %s: %s\n", object.GetKind(), each[0], said.Status)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
# The parts of k8s.io/kubernetes name each other by v0.0.0.
parts=$(sed -n 's|^\t\(k8s.io/[a-z-]*\) v0\.0\.0$|-replace=\1=\1@v0.36.3|p' "$(go list -m -f '{{.GoMod}}' k8s.io/kubernetes@v1.36.3)")
go mod edit $parts
go get github.com/argoproj/argo-cd/gitops-engine@v0.0.0-20260914071520-c9c369efcc5b k8s.io/kubernetes@v1.36.3 2>log || cat log
go get . 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Job: a Job that runs: Progressing
Job: a resumed Job that runs: Healthy
CronJob: a suspended CronJob: none
HorizontalPodAutoscaler: no metrics of pods: Degraded
HorizontalPodAutoscaler: no metrics of a container: Healthy
DaemonSet: no pod is ready: Progressing
DaemonSet: no pod is ready: Healthy
EOF

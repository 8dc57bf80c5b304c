#!/bin/sh
# sigs.k8s.io/cli-utils v0.37.2: kstatus, by which Flux and other deployers wait until objects are ready.
# Guess: a Job whose pods run is InProgress, and a Pod in the phase Failed is Failed, as a failed Job is.
# Seen: both are Current, so a wait ends and the next step begins. Only an unstarted Job is InProgress; a custom object
# with Available=False is Current too, as Ready alone is looked at.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

var objects = []string{
	`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"completions":2},"status":{"active":2,"startTime":"2026-11-28T10:00:00Z"}}`,
	`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{},"status":{"startTime":"2026-11-28T10:00:00Z","conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"restartPolicy":"Never"},"status":{"phase":"Failed"}}`,
	`{"apiVersion":"example.com/v1","kind":"Queue","metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
	`{"apiVersion":"example.com/v1","kind":"Queue","metadata":{"name":"a"},"status":{"conditions":[{"type":"Available","status":"False"}]}}`,
}

func main() {
	for _, text := range objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(text)); err != nil {
			panic(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s %s\n", object.GetKind(), result.Status, result.Message)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/cli-utils@v0.37.2 2>log || cat log
go mod tidy 2>log || cat log
go run . | sed 's/ *$//' >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Job: Current Job in progress. success:0, active: 2, failed: 0
Job: Failed Job Failed. failed: 0/1
Pod: Current Pod has completed, but not successfully
Queue: InProgress
Queue: Current Resource is current
EOF

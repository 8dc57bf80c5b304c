#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: its built-in interpreter of OpenKruise's BroadcastJob, on the status of one that two clusters run.
# Guess: it is completed once both are, and a message of failure names the clusters that failed, in whatever order they are listed.
# Seen: a cluster whose job runs is taken for what the one listed before it is. With the first completed and the second running the whole
# is Completed, and what waits for it goes on; with the first failed, the second is named as failed too. The other way round neither.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/thirdparty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var statuses = map[string]string{
	"running":   `{"active": 3, "succeeded": 0, "failed": 0, "desired": 3, "phase": "running"}`,
	"completed": `{"active": 0, "succeeded": 3, "failed": 0, "desired": 3, "phase": "completed", "conditions": [{"type": "Complete", "status": "True"}]}`,
	"failed":    `{"active": 0, "succeeded": 0, "failed": 3, "desired": 3, "phase": "failed", "conditions": [{"type": "Failed", "status": "True"}]}`,
}

func show(phases ...string) {
	items := []workv1alpha2.AggregatedStatusItem{}
	for i, phase := range phases {
		items = append(items, workv1alpha2.AggregatedStatusItem{
			ClusterName: fmt.Sprint("member-", i+1), Status: &runtime.RawExtension{Raw: []byte(statuses[phase])},
		})
	}
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "metadata": map[string]any{"name": "load", "namespace": "ml"},
	}}
	made, _, err := thirdparty.NewConfigurableInterpreter().AggregateStatus(job, items)
	if err != nil {
		panic(err)
	}
	active, _, _ := unstructured.NestedInt64(made.Object, "status", "active")
	conditions, _, _ := unstructured.NestedSlice(made.Object, "status", "conditions")
	fmt.Println(phases, "active:", active)
	for _, each := range conditions {
		condition := each.(map[string]any)
		fmt.Println("  ", condition["type"], condition["status"], condition["message"])
	}
}

func main() {
	show("completed", "completed")
	show("completed", "running")
	show("running", "completed")
	show("failed", "running")
	show("running", "failed")
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
[completed completed] active: 0
   Completed True Job completed
[completed running] active: 3
   Completed True Job completed
[running completed] active: 3
[failed running] active: 3
   Failed True Job executed failed in member clusters: member-1, member-2
[running failed] active: 3
   Failed True Job executed failed in member clusters: member-2
EOF

#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: status.observedGeneration of what it has divided, by which Argo CD, Flux and `kubectl rollout
# status` tell on Karmada's API server whether a change has arrived.
# Guess: it is the generation of the template once each cluster runs that one, of a StatefulSet as of a Deployment.
# Seen: of a StatefulSet the template's generation is compared with that of the member's object instead. A change that no cluster has got
# yet is observed at once, so a wait ends before it begins; and once the member's object was changed more often than the template, as by
# an autoscaler there, no change is ever observed again. Deployment, DaemonSet and ReplicaSet do as guessed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// observed says what is observed of a template, which one cluster has as of `arrived` in an object of its own generation.
func observed(kind string, template, arrived, member int64) int64 {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": kind,
		"metadata": map[string]any{"name": "web", "namespace": "shop", "generation": template},
		"status":   map[string]any{"observedGeneration": template - 1},
	}}
	status := fmt.Sprintf(`{"generation": %d, "observedGeneration": %d, "resourceTemplateGeneration": %d}`, member, member, arrived)
	items := []workv1alpha2.AggregatedStatusItem{{ClusterName: "member", Status: &runtime.RawExtension{Raw: []byte(status)}}}
	made, err := native.NewDefaultInterpreter().AggregateStatus(object, items)
	if err != nil {
		panic(err)
	}
	generation, _, err := unstructured.NestedInt64(made.Object, "status", "observedGeneration")
	if err != nil {
		panic(err)
	}
	return generation
}

func main() {
	for _, kind := range []string{"Deployment", "DaemonSet", "ReplicaSet", "StatefulSet"} {
		fmt.Println(kind)
		fmt.Println("  template of generation 7, the member has 6: observed", observed(kind, 7, 6, 6))
		fmt.Println("  template of generation 7, the member has it: observed", observed(kind, 7, 7, 7))
		fmt.Println("  the same, and the member's object is of generation 9: observed", observed(kind, 7, 7, 9))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Deployment
  template of generation 7, the member has 6: observed 6
  template of generation 7, the member has it: observed 7
  the same, and the member's object is of generation 9: observed 7
DaemonSet
  template of generation 7, the member has 6: observed 6
  template of generation 7, the member has it: observed 7
  the same, and the member's object is of generation 9: observed 7
ReplicaSet
  template of generation 7, the member has 6: observed 6
  template of generation 7, the member has it: observed 7
  the same, and the member's object is of generation 9: observed 7
StatefulSet
  template of generation 7, the member has 6: observed 7
  template of generation 7, the member has it: observed 7
  the same, and the member's object is of generation 9: observed 6
EOF

#!/bin/sh
# k8s.io/kubectl v0.36.3: `kubectl get --sort-by` on a label such as the rack of nodes.
# Guess: one order, whatever order the server lists them in; numbers among texts sort as texts or by value.
# Seen: two texts are compared as quantities if both are ones, and by the letter else, so 9 is before 10, 10 before 10a, and 10a
# before 9. What comes out depends on what came in: what is first or last in it is neither the least nor the greatest.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/cmd/get"
)

func main() {
	for _, racks := range [][]string{{"9", "10", "10a"}, {"10", "10a", "9"}, {"10a", "9", "10"}} {
		nodes := []runtime.Object{}
		for _, rack := range racks {
			node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node"}}
			node.SetLabels(map[string]string{"rack": rack})
			nodes = append(nodes, node)
		}
		if _, err := get.SortObjects(nil, nodes, ".metadata.labels.rack"); err != nil {
			panic(err)
		}
		fmt.Print("listed ", racks, " sorted")
		for _, node := range nodes {
			fmt.Print(" ", node.(*unstructured.Unstructured).GetLabels()["rack"])
		}
		fmt.Println()
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/kubectl@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
listed [9 10 10a] sorted 9 10 10a
listed [10 10a 9] sorted 10 10a 9
listed [10a 9 10] sorted 10a 9 10
EOF

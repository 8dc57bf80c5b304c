#!/bin/sh
# open-cluster-management.io/sdk-go v1.2.0: its work builder, which divides the objects of an add-on into ManifestWorks by their size, named
# by a function that gets an index and "need to make sure the name is unique".
# Guess: with an index in the name they are unique, and the metadata that the function gives is that of the ManifestWork.
# Seen: the index counts the works that exist now. After the first of two went, as its objects are no longer wanted, the next new one gets
# the name of the second: two of one name, and what is applied last takes the objects of the other from the cluster. Annotations
# of the function are dropped, labels are kept.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/apis/work/v1/builder"
)

func meta(index int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: fmt.Sprint("addon-", index), Namespace: "member",
		Labels: map[string]string{"owner": "team"}, Annotations: map[string]string{"owner": "team"},
	}
}

// objects makes ConfigMaps of 20 KiB each, of which one fits into a work of 40 KiB at most.
func objects(names ...string) []runtime.Object {
	made := []runtime.Object{}
	for _, name := range names {
		made = append(made, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
			"data": map[string]any{"text": strings.Repeat("x", 20*1024)},
		}})
	}
	return made
}

func build(existing []workv1.ManifestWork, names ...string) []workv1.ManifestWork {
	applied, deleted, err := builder.NewWorkBuilder().Build(objects(names...), meta, builder.ExistingManifestWorksOption(existing))
	if err != nil {
		panic(err)
	}
	fmt.Println("wanted:", names)
	works := []workv1.ManifestWork{}
	for _, work := range applied {
		held := []string{}
		for _, manifest := range work.Spec.Workload.Manifests {
			object := unstructured.Unstructured{}
			if err := json.Unmarshal(manifest.Raw, &object.Object); err != nil {
				panic(err)
			}
			held = append(held, object.GetName())
		}
		works = append(works, *work)
		fmt.Println("  apply", work.Name, "with", held, "labels:", len(work.Labels), "annotations:", len(work.Annotations))
	}
	for _, work := range deleted {
		fmt.Println("  delete", work.Name)
	}
	slices.SortFunc(works, func(a, b workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return works
}

func main() {
	works := build(nil, "a")
	works = build(works, "a", "b")
	works = build(works, "b")
	build(works, "b", "c")
}
EOF
go mod init example.com/finding 2>log || cat log
go get open-cluster-management.io/sdk-go@v1.2.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
wanted: [a]
  apply addon-0 with [a] labels: 1 annotations: 0
wanted: [a b]
  apply addon-1 with [b] labels: 1 annotations: 0
  apply addon-0 with [a] labels: 1 annotations: 0
wanted: [b]
  apply addon-1 with [b] labels: 1 annotations: 0
  delete addon-0
wanted: [b c]
  apply addon-1 with [c] labels: 1 annotations: 0
  apply addon-1 with [b] labels: 1 annotations: 0
EOF

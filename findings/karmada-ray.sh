#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: its built-in interpreter of KubeRay's RayService, on one that is divided over two clusters.
# Guess: the workers of both clusters are those that the RayService asks for, in each group from none on.
# Seen: the head is counted among the replicas and made in each cluster, so each further cluster costs a worker: of 4 are left 3. Where
# there are several groups each share is rounded, and the last group gets what is left: of 4 groups with one worker each, 2 workers
# are 1, 1, 1 and -1.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/thirdparty"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func group(replicas int64) map[string]any {
	pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "ray"}}}}
	return map[string]any{"groupName": "workers", "replicas": replicas, "template": pod}
}

func show(workers ...int64) {
	groups := []any{}
	for _, replicas := range workers {
		groups = append(groups, group(replicas))
	}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": map[string]any{"name": "serve", "namespace": "ml"},
		"spec": map[string]any{"rayClusterConfig": map[string]any{"headGroupSpec": group(1), "workerGroupSpecs": groups}},
	}}
	interpreter := thirdparty.NewConfigurableInterpreter()
	all, _, _, err := interpreter.GetReplicas(service)
	if err != nil {
		panic(err)
	}
	fmt.Println("groups of workers:", workers, "replicas of all:", all)
	for _, share := range []int64{int64(all+1) / 2, int64(all) / 2} {
		revised, _, err := interpreter.ReviseReplica(service.DeepCopy(), share)
		if err != nil {
			panic(err)
		}
		groups, _, err := unstructured.NestedSlice(revised.Object, "spec", "rayClusterConfig", "workerGroupSpecs")
		if err != nil {
			panic(err)
		}
		made := []any{}
		for _, each := range groups {
			made = append(made, each.(map[string]any)["replicas"])
		}
		fmt.Println("  a cluster with", share, "of them: one head, groups of workers:", made)
	}
}

func main() {
	show(4)
	show(1, 1, 1, 1)
	show(3, 3, 3, 3)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
groups of workers: [4] replicas of all: 5
  a cluster with 3 of them: one head, groups of workers: [2]
  a cluster with 2 of them: one head, groups of workers: [1]
groups of workers: [1 1 1 1] replicas of all: 5
  a cluster with 3 of them: one head, groups of workers: [1 1 1 -1]
  a cluster with 2 of them: one head, groups of workers: [0 0 0 1]
groups of workers: [3 3 3 3] replicas of all: 13
  a cluster with 7 of them: one head, groups of workers: [2 2 2 0]
  a cluster with 6 of them: one head, groups of workers: [1 1 1 2]
EOF

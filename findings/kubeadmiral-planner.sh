#!/bin/sh
# github.com/kubewharf/kubeadmiral v1.0.0: the planner that divides replicas among clusters by weights.
# Guess: by weights as near as whole replicas allow: among equal clusters no two differ by more than one.
# Seen: it goes from cluster to cluster and rounds each share up, until nothing is left for the last ones. Of 6 replicas on 5 equal clusters
# three get 2 and two get none; of 101 on 50, sixteen clusters of equal weight get none while others have 3.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"slices"

	"github.com/kubewharf/kubeadmiral/pkg/controllers/scheduler/planner"
)

func divide(replicas int64, weights ...int64) []int64 {
	preferences := map[string]planner.ClusterPreferences{}
	names := []string{}
	for i, weight := range weights {
		names = append(names, fmt.Sprintf("cluster-%02d", i))
		preferences[names[i]] = planner.ClusterPreferences{Weight: weight}
	}
	plan, _, err := planner.Plan(
		&planner.ReplicaSchedulingPreference{Clusters: preferences}, replicas, names, nil, nil, nil, "shop/web", false, false)
	if err != nil {
		panic(err)
	}
	placed := []int64{}
	for _, name := range names {
		placed = append(placed, plan[name])
	}
	slices.Sort(placed)
	slices.Reverse(placed)
	return placed
}

func main() {
	fmt.Println("6 replicas, 5 equal clusters:", divide(6, 1, 1, 1, 1, 1))
	fmt.Println("11 replicas, 10 equal clusters:", divide(11, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))
	fifty := make([]int64, 50)
	for i := range fifty {
		fifty[i] = 100
	}
	counts := map[int64]int{}
	for _, n := range divide(101, fifty...) {
		counts[n]++
	}
	fmt.Println("101 replicas, 50 equal clusters, clusters by their replicas:", counts)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kubewharf/kubeadmiral@v1.0.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
6 replicas, 5 equal clusters: [2 2 2 0 0]
11 replicas, 10 equal clusters: [2 2 2 2 2 1 0 0 0 0]
101 replicas, 50 equal clusters, clusters by their replicas: map[0:16 2:1 3:33]
EOF

#!/bin/sh
# k8s.io/apimachinery v0.36.3: strategic merge patches, the default of `kubectl patch`, on lists that have two keys in the schema.
# Guess: the spread constraint of zone and ScheduleAnyway gets a skew of 3, and port 53 of UDP a hostPort: server-side apply tells
# items apart by both keys (topologyKey and whenUnsatisfiable, containerPort and protocol).
# Seen: only the first key counts, and the first item that has it is overwritten. The constraint DoNotSchedule is gone, and
# ScheduleAnyway stands there twice; both ports are of UDP, and none of TCP is left.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func merge(object, patch string, kind any) {
	merged, err := strategicpatch.StrategicMergePatch([]byte(object), []byte(patch), kind)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(merged))
}

func main() {
	merge(`{"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"},
		{"topologyKey":"zone","maxSkew":2,"whenUnsatisfiable":"ScheduleAnyway"}]}`,
		`{"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":3,"whenUnsatisfiable":"ScheduleAnyway"}]}`,
		corev1.PodSpec{})
	merge(`{"ports":[{"containerPort":53,"name":"tcp","protocol":"TCP"},{"containerPort":53,"name":"udp","protocol":"UDP"}]}`,
		`{"ports":[{"containerPort":53,"hostPort":53,"protocol":"UDP"}]}`,
		corev1.Container{})
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/api@v0.36.3 k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
{"topologySpreadConstraints":[{"maxSkew":3,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"},{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}]}
{"ports":[{"containerPort":53,"hostPort":53,"name":"tcp","protocol":"UDP"},{"containerPort":53,"name":"udp","protocol":"UDP"}]}
EOF

#!/bin/sh
# k8s.io/client-go v0.36.3: the event correlator, through which controllers record Events.
# Guess: only Events that are alike are dropped or counted together: 30 Events of one object with 30 reasons are all written.
# Seen: of one object and component the first 25 are; what comes after that is dropped whatever it says, until one is admitted
# every five minutes. The last Event of a long story, "Failed" or "Ready", is the one that nobody sees.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	clock "k8s.io/utils/clock/testing"
)

func main() {
	now := clock.NewFakeClock(time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC))
	correlator := record.NewEventCorrelator(now)
	written := func(i int) bool {
		result, err := correlator.EventCorrelate(&corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web"},
			Reason:         fmt.Sprint("Reason", i),
			Message:        fmt.Sprint("message ", i),
			Source:         corev1.EventSource{Component: "example"},
		})
		if err != nil {
			panic(err)
		}
		return !result.Skip
	}
	count := 0
	for i := range 30 {
		if written(i) {
			count++
		}
	}
	fmt.Println("written of 30:", count)
	now.Step(4 * time.Minute)
	fmt.Println("after 4 minutes:", written(30))
	now.Step(time.Minute)
	fmt.Println("after 5 minutes:", written(31), written(32))
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
written of 30: 25
after 4 minutes: false
after 5 minutes: true false
EOF

#!/bin/sh
# k8s.io/apimachinery v0.36.3: wait.ExponentialBackoff, by which controllers and client-go try again, with 10 steps and a cap.
# Guess: 10 tries, as Steps says; the cap only bounds the pause between two of them.
# Seen: the first pause that the cap cuts is the last one, so 3 tries; a cap that is never reached, or none, leaves all 10.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func main() {
	for _, limit := range []time.Duration{0, 4 * time.Millisecond, time.Second} {
		tries := 0
		backoff := wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 10, Cap: limit}
		err := wait.ExponentialBackoff(backoff, func() (bool, error) {
			tries++
			return false, nil
		})
		fmt.Printf("cap %v: %d tries, %v\n", limit, tries, err)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cap 0s: 10 tries, timed out waiting for the condition
cap 4ms: 3 tries, timed out waiting for the condition
cap 1s: 10 tries, timed out waiting for the condition
EOF

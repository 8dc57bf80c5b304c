#!/bin/sh
# kubernetes 37.0.2 (PyPI): utils.duration.parse_duration, on what metav1.Duration of k8s.io/apimachinery v0.36.3 writes.
# Guess: the official client reads each duration that a Go controller writes into a field such as a timeout.
# Seen: it knows only durations of the Gateway API. Go writes 1500 milliseconds as "1.5s", and half a second as "500ms": the
# first is a ValueError, and so is an age of 5000 days, of which Go writes all hours.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	json.NewEncoder(os.Stdout).Encode([]metav1.Duration{
		{Duration: 90 * time.Minute}, {Duration: 500 * time.Millisecond}, {Duration: 1500 * time.Millisecond}, {Duration: 5000 * 24 * time.Hour},
	})
}
EOF
cat >parse.py <<'EOF'
import json
import sys

from kubernetes.utils.duration import parse_duration

for text in json.load(sys.stdin):
    try:
        print(text, "->", parse_duration(text).total_seconds())
    except ValueError as error:
        print(text, "-> ValueError:", error)
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . | "$dir/venv/bin/python" parse.py >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
1h30m0s -> 5400.0
500ms -> 0.5
1.5s -> ValueError: Invalid duration format: 1.5s
120000h0m0s -> ValueError: Invalid duration format: 120000h0m0s
EOF

#!/bin/sh
# github.com/kyverno/kyverno v1.19.1: the patterns of its validation rules, on labels of releases.
# Guess: "2026-10 | 2026-11" takes these two texts, "!1.10" each text but this one.
# Seen: in a list, two numbers with a hyphen are a range, here from 2026 down to 10, so no object passes, whatever its label is; alone
# the same text passes. Texts that are quantities are compared as such: "!1.10" refuses release 1.1, and "!1k" 1000.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/kyverno/kyverno/pkg/engine/pattern"
)

func show(rule string, labels ...string) {
	for _, label := range labels {
		fmt.Printf("%-20q label %-10q passes %v\n", rule, label, pattern.Validate(logr.Discard(), label, rule))
	}
}

func main() {
	show("stable | edge", "stable", "edge")
	show("2026-10", "2026-10")
	show("2026-10 | 2026-11", "2026-10", "2026-11")
	show("!1.10", "1.9", "1.1")
	show("!1k", "1000")
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kyverno/kyverno@v1.19.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
"stable | edge"      label "stable"   passes true
"stable | edge"      label "edge"     passes true
"2026-10"            label "2026-10"  passes true
"2026-10 | 2026-11"  label "2026-10"  passes false
"2026-10 | 2026-11"  label "2026-11"  passes false
"!1.10"              label "1.9"      passes true
"!1.10"              label "1.1"      passes false
"!1k"                label "1000"     passes false
EOF

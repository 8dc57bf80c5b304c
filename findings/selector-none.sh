#!/bin/sh
# k8s.io/apimachinery v0.36.3: FormatLabelSelector, by which `kubectl get` and `kubectl describe` print a selector.
# Guess: a selector without requirements, which selects everything, looks otherwise than one that is not set and selects nothing.
# Seen: both are "<none>", so what selects each pod of a namespace reads like what selects no pod at all.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func main() {
	for name, given := range map[string]*metav1.LabelSelector{"not set": nil, "{}": {}} {
		selector, err := metav1.LabelSelectorAsSelector(given)
		if err != nil {
			panic(err)
		}
		fmt.Println(name, metav1.FormatLabelSelector(given), selector.Matches(labels.Set{"app": "web"}))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . | sort >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
not set <none> false
{} <none> true
EOF

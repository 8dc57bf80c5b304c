#!/bin/sh
# k8s.io/kube-openapi v0.0.0-20260317180543-43fb72c5454a, by which Kubernetes 1.36 validates `format: duration` of a
# CustomResourceDefinition, and makes durations for its CEL rules.
# Guess: "1.5h" is an hour and a half; "1.5 hours", which the documented Scala format allows, is so too.
# Seen: with a spelled-out or longer unit only the digits after the point count: "1.5 hours" is 5h, "0.5 hours" 5h too,
# "1.5d" five days. "-1 day" is a day. All pass the validation.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

func main() {
	for _, text := range []string{"1.5h", "90 minutes", "1.5 hours", "0.5 hours", "1.5d", "-1h", "-1 day"} {
		said, err := strfmt.ParseDuration(text)
		fmt.Printf("%q valid: %t, is %v %v\n", text, strfmt.Default.Validates("duration", text), said, err)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
"1.5h" valid: true, is 1h30m0s <nil>
"90 minutes" valid: true, is 1h30m0s <nil>
"1.5 hours" valid: true, is 5h0m0s <nil>
"0.5 hours" valid: true, is 5h0m0s <nil>
"1.5d" valid: true, is 120h0m0s <nil>
"-1h" valid: true, is -1h0m0s <nil>
"-1 day" valid: true, is 24h0m0s <nil>
EOF

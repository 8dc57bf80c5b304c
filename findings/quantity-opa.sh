#!/bin/sh
# github.com/open-policy-agent/opa v1.22.4: units.parse_bytes, for policies on memory, on what the API server stores
# (k8s.io/apimachinery v0.36.3).
# Guess: a memory of 0.1Gi is 107374182 bytes, rounded, in both forms.
# Seen: the API server stores it as "107374182400m", thousandths of a byte, and OPA reads these as megabytes: 10^17 bytes. A
# rule on a limit refuses what is far below it. units.parse reads both forms alike.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"

	"github.com/open-policy-agent/opa/v1/rego"
	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	stored := resource.MustParse("0.1Gi")
	for _, text := range []string{"0.1Gi", stored.String()} {
		for _, function := range []string{"units.parse", "units.parse_bytes"} {
			query := fmt.Sprintf("x := round(%s(%q))", function, text)
			found, err := rego.New(rego.Query(query), rego.StrictBuiltinErrors(true)).Eval(context.Background())
			if err != nil {
				panic(err)
			}
			fmt.Println(query, "->", found[0].Bindings["x"])
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/open-policy-agent/opa/v1/rego@v1.22.4 k8s.io/apimachinery/pkg/api/resource@v0.36.3 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
x := round(units.parse("0.1Gi")) -> 107374182
x := round(units.parse_bytes("0.1Gi")) -> 107374182
x := round(units.parse("107374182400m")) -> 107374182
x := round(units.parse_bytes("107374182400m")) -> 107374182400000000
EOF

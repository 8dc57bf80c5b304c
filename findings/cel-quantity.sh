#!/bin/sh
# k8s.io/apiserver v0.36.3: the quantity library of CEL, for validation rules and admission policies.
# Guess: quantity("1.5Gi").asInteger() is 1610612736, as its documentation says "if possible" and "loss of precision" else.
# Seen: isInteger() is false and asInteger() an error for it, as for 1.0: what is written with a point is no integer there.
# It compares as equal to quantity("1536Mi"), which is one. A rule on memory must use compareTo instead.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

func main() {
	environment, err := cel.NewEnv(library.Quantity())
	if err != nil {
		panic(err)
	}
	for _, text := range []string{
		`quantity("1536Mi").asInteger()`,
		`quantity("1.5Gi").asInteger()`,
		`quantity("1.5Gi").isInteger()`,
		`quantity("1.0").isInteger()`,
		`quantity("1.5Gi") == quantity("1536Mi")`,
	} {
		ast, issues := environment.Compile(text)
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := environment.Program(ast)
		if err != nil {
			panic(err)
		}
		if said, _, err := program.Eval(map[string]any{}); err != nil {
			fmt.Println(text, "-> error:", err)
		} else {
			fmt.Println(text, "->", said)
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apiserver@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
quantity("1536Mi").asInteger() -> 1610612736
quantity("1.5Gi").asInteger() -> error: cannot convert value to integer
quantity("1.5Gi").isInteger() -> false
quantity("1.0").isInteger() -> false
quantity("1.5Gi") == quantity("1536Mi") -> true
EOF

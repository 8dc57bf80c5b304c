#!/bin/sh
# github.com/google/cel-go v0.26.0, the CEL of Kubernetes 1.36, beside cel-expr-python 0.1.3 (PyPI), Google's CEL for Python: string().
# Guess: a value becomes the text that it was made of, and the two of one house write the same.
# Seen: an hour and a half is "5400s" and a million "1e+06". cel-go keeps the offset of a time and cuts zeros; cel-expr-python turns
# the time to UTC and fills thousandths: texts that are compared or kept as a key differ between the API server and a tool.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check cel-expr-python==0.1.3
cd "$dir"
cat >texts <<'EOF'
string(duration("1h30m"))
string(1000000.0)
string(duration("1500ms"))
string(timestamp("2027-03-01T10:00:00+02:00"))
string(timestamp("2027-03-01T10:00:00.5Z"))
EOF
cat >evaluate.py <<'EOF'
from cel_expr_python import cel

environment = cel.NewEnv()
for text in open("texts").read().splitlines():
    print("cel-expr-python:", text, "->", environment.compile(text).eval().value())
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
)

func main() {
	texts, _ := os.ReadFile("texts")
	environment, err := cel.NewEnv()
	if err != nil {
		panic(err)
	}
	for _, text := range strings.Fields(string(texts)) {
		ast, issues := environment.Compile(text)
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := environment.Program(ast)
		if err != nil {
			panic(err)
		}
		said, _, err := program.Eval(map[string]any{})
		if err != nil {
			panic(err)
		}
		fmt.Println("cel-go:", text, "->", said.Value())
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/google/cel-go@v0.26.0 2>log || cat log
go mod tidy 2>log || cat log
{ go run .; "$dir/venv/bin/python" evaluate.py; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cel-go: string(duration("1h30m")) -> 5400s
cel-go: string(1000000.0) -> 1e+06
cel-go: string(duration("1500ms")) -> 1.5s
cel-go: string(timestamp("2027-03-01T10:00:00+02:00")) -> 2027-03-01T10:00:00+02:00
cel-go: string(timestamp("2027-03-01T10:00:00.5Z")) -> 2027-03-01T10:00:00.5Z
cel-expr-python: string(duration("1h30m")) -> 5400s
cel-expr-python: string(1000000.0) -> 1e+06
cel-expr-python: string(duration("1500ms")) -> 1.500s
cel-expr-python: string(timestamp("2027-03-01T10:00:00+02:00")) -> 2027-03-01T08:00:00Z
cel-expr-python: string(timestamp("2027-03-01T10:00:00.5Z")) -> 2027-03-01T10:00:00.500Z
EOF

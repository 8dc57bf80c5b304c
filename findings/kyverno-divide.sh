#!/bin/sh
# github.com/kyverno/kyverno v1.19.1: arithmetic of its JMESPath on quantities and durations, by which mutation rules compute requests.
# Guess: half of a cpu is 500m, as multiply by 0.5 gives it, and an hour and 30m are an hour and a half.
# Seen: divide keeps no more digits than the quantity is written with, and cuts the rest: half of "1" is 0, of "3" it is 1. The API server
# writes 1000m, of which half is 500m, as "1". A text is a quantity where it may be one, so 30m is 30 thousandths: added to 10m it is 40m,
# and to 1h an error.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/kyverno/kyverno/pkg/config"
	"github.com/kyverno/kyverno/pkg/engine/jmespath"
)

func main() {
	for _, expression := range []string{
		"multiply('1', `0.5`)", "divide('1000m', `2`)", "divide('1', `2`)", "divide('3', `2`)", "divide('100m', `8`)",
		"add('1h', '1h')", "add('10m', '30m')", "add('1h', '30m')",
	} {
		query, err := jmespath.New(config.NewDefaultConfiguration(false)).Query(expression)
		if err != nil {
			panic(err)
		}
		if result, err := query.Search(nil); err != nil {
			fmt.Println(expression, "error:", err)
		} else {
			fmt.Println(expression, "->", result)
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kyverno/kyverno/pkg/config@v1.19.1 github.com/kyverno/kyverno/pkg/engine/jmespath@v1.19.1 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
multiply('1', `0.5`) -> 500m
divide('1000m', `2`) -> 500m
divide('1', `2`) -> 0
divide('3', `2`) -> 1
divide('100m', `8`) -> 12m
add('1h', '1h') -> 2h0m0s
add('10m', '30m') -> 40m
add('1h', '30m') error: JMESPath function 'add': Types mismatch
EOF

#!/bin/sh
# k8s.io/apimachinery v0.36.3: NewYAMLOrJSONDecoder, which kubectl reads files with, on a document that begins on the
# line of its separator. The YAML specification allows it; PyYAML and the like read it.
# Guess: two documents.
# Seen: "invalid Yaml document separator"; only a comment may follow the three dashes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	for _, second := range []string{"---\n{kind: B}\n", "--- # next\n{kind: B}\n", "--- {kind: B}\n"} {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader("kind: A\n"+second), 4096)
		fmt.Printf("%q", second)
		for range 2 {
			var read map[string]any
			if err := decoder.Decode(&read); err != nil {
				fmt.Printf(" error: %v", err)
				break
			}
			fmt.Printf(" %v", read)
		}
		fmt.Println()
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
"---\n{kind: B}\n" map[kind:A] map[kind:B]
"--- # next\n{kind: B}\n" map[kind:A] map[kind:B]
"--- {kind: B}\n" error: invalid Yaml document separator: {kind: B}
EOF

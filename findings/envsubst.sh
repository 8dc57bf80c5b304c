#!/bin/sh
# github.com/fluxcd/pkg/envsubst v1.8.0, by which Flux puts the variables of a cluster into manifests, beside bash.
# Guess: the functions of its README give what those of bash do: a default of "=" for what is unset only, patterns in replacements.
# Seen: ${NAME-d}, the first default in that list, is an error. "=" replaces an empty value as well, so it can't be emptied for a
# cluster. Patterns are taken by the letter in replacements, and to put nothing in place of a prefix changes nothing. ${NAME:+d},
# listed as not supported, is no error but gives d exactly where NAME is empty.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >texts <<'EOF'
${UNSET-d}
${EMPTY=d}
${TAG/[0-9]/x}
${TAG/v*/x}
${TAG/#v/}
${TAG#v}
${TAG:+d}
${EMPTY:+d}
EOF
cat >expand.sh <<'EOF'
TAG=v1.2.3
while IFS= read -r text; do
  EMPTY=
  eval "said=$text"
  printf 'bash: %s -> "%s"\n' "$text" "$said"
done <texts
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
)

func main() {
	texts, _ := os.ReadFile("texts")
	variables := map[string]string{"TAG": "v1.2.3", "EMPTY": ""}
	for _, text := range strings.Fields(string(texts)) {
		said, err := envsubst.Eval(text, func(name string) (string, bool) {
			value, set := variables[name]
			return value, set
		})
		if err != nil {
			fmt.Printf("envsubst: %s -> error: %v\n", text, err)
		} else {
			fmt.Printf("envsubst: %s -> %q\n", text, said)
		}
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/fluxcd/pkg/envsubst@v1.8.0 2>log || cat log
{ bash expand.sh; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
bash: ${UNSET-d} -> "d"
bash: ${EMPTY=d} -> ""
bash: ${TAG/[0-9]/x} -> "vx.2.3"
bash: ${TAG/v*/x} -> "x"
bash: ${TAG/#v/} -> "1.2.3"
bash: ${TAG#v} -> "1.2.3"
bash: ${TAG:+d} -> "d"
bash: ${EMPTY:+d} -> ""
envsubst: ${UNSET-d} -> error: missing closing brace
envsubst: ${EMPTY=d} -> "d"
envsubst: ${TAG/[0-9]/x} -> "v1.2.3"
envsubst: ${TAG/v*/x} -> "v1.2.3"
envsubst: ${TAG/#v/} -> "v1.2.3"
envsubst: ${TAG#v} -> "1.2.3"
envsubst: ${TAG:+d} -> "v1.2.3"
envsubst: ${EMPTY:+d} -> "d"
EOF

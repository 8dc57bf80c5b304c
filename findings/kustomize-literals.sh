#!/bin/sh
# sigs.k8s.io/kustomize/api v0.21.1, the kustomize of kubectl 0.36.3: `literals` and `envs` of a configMapGenerator.
# Guess: the value is what stands behind the first "=", as with `kubectl create configmap --from-literal`.
# Seen: if a literal both begins and ends with the same quote, the two are cut off, though they are no pair: of `"a" "b"` stays
# `a" "b`, and a JSON text is a text no longer. Lines of an env file keep theirs, so moving a line from one to the other changes it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >kustomization.yaml <<'EOF'
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator:
- {name: literals, literals: ['ARGS="a" "b"', 'JSON="a"', 'CMD=echo "a"']}
- {name: file, envs: [settings.env]}
EOF
cat >settings.env <<'EOF'
ARGS="a" "b"
JSON="a"
CMD=echo "a"
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), ".")
	if err != nil {
		panic(err)
	}
	for _, object := range built.Resources() {
		text, err := object.MarshalJSON()
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/kustomize/api@v0.21.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
{"apiVersion":"v1","data":{"ARGS":"a\" \"b","CMD":"echo \"a\"","JSON":"a"},"kind":"ConfigMap","metadata":{"name":"literals"}}
{"apiVersion":"v1","data":{"ARGS":"\"a\" \"b\"","CMD":"echo \"a\"","JSON":"\"a\""},"kind":"ConfigMap","metadata":{"name":"file"}}
EOF

#!/bin/sh
# sigs.k8s.io/kustomize/api v0.21.1, the kustomize of kubectl 0.36.3: `labels` with includeTemplates and without includeSelectors.
# Guess: spec.template gets the label, as its documentation says, so it can be turned on, or a value changed, for what runs.
# Seen: the volumeClaimTemplates of a StatefulSet get it too, which the API server never lets change: the object that was
# applied before can't be updated any more, and must be deleted.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >kustomization.yaml <<'EOF'
resources: [all.yaml]
labels: [{pairs: {release: blue}, includeTemplates: true}]
EOF
cat >all.yaml <<'EOF'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}}
  volumeClaimTemplates: [{metadata: {name: data}}]
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
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"labels":{"release":"blue"},"name":"db"},"spec":{"selector":{"matchLabels":{"app":"db"}},"template":{"metadata":{"labels":{"app":"db","release":"blue"}}},"volumeClaimTemplates":[{"metadata":{"labels":{"release":"blue"},"name":"data"}}]}}
EOF

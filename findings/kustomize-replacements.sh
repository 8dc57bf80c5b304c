#!/bin/sh
# sigs.k8s.io/kustomize/api v0.21.1, the kustomize of kubectl 0.36.3: `replacements` that copy a port, a number, to where texts stand.
# Guess: a text in each place, as data of a ConfigMap and annotations are texts only.
# Seen: a text in annotations and where one stood before, but a number where a key of data is created: the API server refuses
# the ConfigMap as soon as the base no longer has the key.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >kustomization.yaml <<'EOF'
resources: [all.yaml]
replacements:
- source: {kind: Service, name: web, fieldPath: spec.ports.0.port}
  targets:
  - {select: {kind: ConfigMap}, fieldPaths: [data.old, data.new], options: {create: true}}
  - {select: {kind: Deployment}, fieldPaths: [metadata.annotations.old, metadata.annotations.new], options: {create: true}}
EOF
cat >all.yaml <<'EOF'
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 8080}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {old: "80"}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, annotations: {old: "80"}}}
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
{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":8080}]}}
{"apiVersion":"v1","data":{"new":8080,"old":"8080"},"kind":"ConfigMap","metadata":{"name":"web"}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"new":"8080","old":"8080"},"name":"web"}}
EOF

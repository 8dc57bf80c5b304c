#!/bin/sh
# sigs.k8s.io/yaml v1.6.0 with k8s.io/api v0.36.3: a ConfigMap whose values lack their quotes.
# Guess: Unmarshal fails, as `kubectl apply` does on it: data is a map of strings.
# Seen: Unmarshal, UnmarshalStrict too, turns numbers and booleans into strings without an error, and not into those of
# the file: 1.10 becomes "1.1", 0644 "420", yes "true". What a Go tool accepts so, the API server refuses.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	text := []byte("data: {version: 1.10, mode: 0644, debug: yes, size: 1e3}\n")
	var read corev1.ConfigMap
	err := yaml.UnmarshalStrict(text, &read)
	fmt.Println("UnmarshalStrict:", read.Data, err)
	asJSON, err := yaml.YAMLToJSON(text)
	fmt.Println("YAMLToJSON, as kubectl sends it:", string(asJSON), err)
	fmt.Println("as JSON read:", json.Unmarshal(asJSON, &corev1.ConfigMap{}) == nil)
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/yaml@v1.6.0 k8s.io/api@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
UnmarshalStrict: map[debug:true mode:420 size:1000 version:1.1] <nil>
YAMLToJSON, as kubectl sends it: {"data":{"debug":true,"mode":420,"size":1000,"version":1.1}} <nil>
as JSON read: false
EOF

#!/bin/sh
# sigs.k8s.io/yaml v1.6.0 with k8s.io/api v0.36.3: a Container whose field names have other capitals than those of the API.
# Guess: UnmarshalStrict names the unknown fields, as `kubectl apply` does on the same file.
# Seen: it takes them for the fields that they resemble, and says nothing. sigs.k8s.io/json, by which the API server reads,
# knows none of them: a controller acts on a field that no server has.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func main() {
	text := []byte(`{"name": "a", "Image": "nginx", "imagepullpolicy": "Always", "ports": [{"containerport": 80}]}`)
	read := corev1.Container{}
	err := yaml.UnmarshalStrict(text, &read)
	fmt.Println("sigs.k8s.io/yaml:", read.Image, read.ImagePullPolicy, read.Ports[0].ContainerPort, err)
	read = corev1.Container{}
	faults, err := json.UnmarshalStrict(text, &read)
	fmt.Printf("sigs.k8s.io/json: %q %q %d %v %v\n", read.Image, read.ImagePullPolicy, read.Ports[0].ContainerPort, faults, err)
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/api@v0.36.3 sigs.k8s.io/yaml@v1.6.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
sigs.k8s.io/yaml: nginx Always 80 <nil>
sigs.k8s.io/json: "" "" 0 [unknown field "Image" unknown field "imagepullpolicy" unknown field "ports[0].containerport"] <nil>
EOF

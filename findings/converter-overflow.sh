#!/bin/sh
# k8s.io/apimachinery v0.36.3: DefaultUnstructuredConverter, by which controllers make typed objects of what a dynamic client reads, here of
# a custom kind whose schema says `type: integer` and whose Go type says int32.
# Guess: a number that the field has no room for is an error, as for encoding/json on the same object.
# Seen: it is cut to the low bits of the field, without an error: a limit of 3000000000 bytes is -1294967296, one of 4294967299 is 3.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		LimitBytes int32 `json:"limitBytes"`
	} `json:"spec"`
}

func main() {
	for _, limit := range []string{"1000000000", "3000000000", "4294967299", "1.5"} {
		text := fmt.Appendf(nil, `{"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "a"}, "spec": {"limitBytes": %s}}`, limit)
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, object); err != nil {
			panic(err)
		}
		converted, decoded := Queue{}, Queue{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &converted)
		fmt.Println(limit, "converter:", converted.Spec.LimitBytes, "error:", err != nil)
		err = json.Unmarshal(text, &decoded)
		fmt.Println(limit, "encoding/json:", decoded.Spec.LimitBytes, "error:", err != nil)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
1000000000 converter: 1000000000 error: false
1000000000 encoding/json: 1000000000 error: false
3000000000 converter: -1294967296 error: false
3000000000 encoding/json: 0 error: true
4294967299 converter: 3 error: false
4294967299 encoding/json: 0 error: true
1.5 converter: 0 error: true
1.5 encoding/json: 0 error: true
EOF

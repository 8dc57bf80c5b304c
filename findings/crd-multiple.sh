#!/bin/sh
# k8s.io/kube-openapi v0.0.0-20260317180543-43fb72c5454a, by which Kubernetes 1.36 validates custom objects against their
# schema: multipleOf with a fraction, for a share or a price.
# Guess: as in JSON Schema, whose numbers are decimal: 2 is a multiple of 0.5 and none of 1.5; 1.11 and 1.15 are ones of 0.01.
# Seen: where the number has no point, the fraction is cut off the factor: no whole number is a multiple of 0.5 ("must be
# positive"), and each is one of 1.5. Where it has, 1.15 is refused, as the quotient of floats is not whole; with 0.05 it passes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

func main() {
	for _, each := range [][2]string{{"0.5", "2.5"}, {"0.5", "2"}, {"1.5", "3"}, {"1.5", "2"}, {"0.01", "1.11"}, {"0.01", "1.15"}, {"0.05", "1.15"}} {
		schema := &spec.Schema{}
		if err := json.Unmarshal([]byte(`{"type":"number","multipleOf":`+each[0]+`}`), schema); err != nil {
			panic(err)
		}
		// Read as the API server reads an object: what has no point is an int64.
		object := map[string]any{}
		if err := json.Unmarshal([]byte(`{"share":`+each[1]+`}`), &object); err != nil {
			panic(err)
		}
		result := validate.NewSchemaValidator(schema, nil, "share", strfmt.Default).Validate(object["share"])
		fmt.Println("multipleOf", each[0]+":", each[1], result.IsValid(), result.Errors)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
multipleOf 0.5: 2.5 true []
multipleOf 0.5: 2 false [factor MultipleOf declared for share must be positive: 0]
multipleOf 1.5: 3 true []
multipleOf 1.5: 2 true []
multipleOf 0.01: 1.11 true []
multipleOf 0.01: 1.15 false [share in body should be a multiple of 0.01]
multipleOf 0.05: 1.15 true []
EOF

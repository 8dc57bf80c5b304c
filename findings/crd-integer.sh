#!/bin/sh
# k8s.io/kube-openapi v0.0.0-20260317180543-43fb72c5454a, by which Kubernetes 1.36 validates custom objects against their
# schema, beside jsonschema 4.26.0 (PyPI): an integer with a fractional bound.
# Guess: minimum: 1.5 admits 2 and refuses 1, as in JSON Schema.
# Seen: no integer passes at all: "Minimum boundary value must be of type integer". With type: number 2 passes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check jsonschema==4.26.0
cd "$dir"
cat >validate.py <<'EOF'
from jsonschema import Draft202012Validator

for number in (1, 2):
    fits = Draft202012Validator({"type": "integer", "minimum": 1.5}).is_valid(number)
    print("jsonschema 4.26.0: minimum 1.5", number, fits)
EOF
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

func main() {
	for _, each := range []struct {
		schema string
		number int64
	}{
		{`{"type":"integer","minimum":1.5}`, 1},
		{`{"type":"integer","minimum":1.5}`, 2},
		{`{"type":"number","minimum":1.5}`, 2},
	} {
		schema := &spec.Schema{}
		if err := json.Unmarshal([]byte(each.schema), schema); err != nil {
			panic(err)
		}
		result := validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(each.number)
		fmt.Println("kube-openapi:", each.schema, each.number, result.IsValid())
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a 2>log || cat log
go mod tidy 2>log || cat log
{ "$dir/venv/bin/python" validate.py; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
jsonschema 4.26.0: minimum 1.5 1 False
jsonschema 4.26.0: minimum 1.5 2 True
kube-openapi: {"type":"integer","minimum":1.5} 1 false
kube-openapi: {"type":"integer","minimum":1.5} 2 false
kube-openapi: {"type":"number","minimum":1.5} 2 true
EOF

#!/bin/sh
# github.com/kubernetes-sigs/kro v0.9.4: the schema that a ResourceGraphDefinition's "type | markers" become, with which the API server of
# k8s.io/apiextensions-apiserver v0.36.3 checks the instances.
# Guess: minimum of a list or a map of integers counts for each integer in it, or is an error, as maxLength and pattern of a list of texts
# are. A default in quotes is the text between them, with \\ for a backslash and \" for a quote, as it is with pattern.
# Seen: minimum and maximum stand beside the items, where the API server takes no notice, so a weight of -1 is taken; on a text as well. What
# is left of a default is read as JSON once more: "\\bweb\\b" is web between two backspaces, a folder named temp gets a tab, and what is no
# escape there, or has a quote in it, is no JSON, which shows when the CRD is written.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"

	"github.com/kubernetes-sigs/kro/pkg/simpleschema"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// read returns the schema of an object with this one field, as the API server reads it of the CRD, and what the field defaults to.
func read(text string) (*apiextensions.JSONSchemaProps, any, error) {
	made, err := simpleschema.ToOpenAPISpec(map[string]any{"size": text}, nil)
	if err != nil {
		return nil, nil, err
	}
	written, err := json.Marshal(made)
	if err != nil {
		return nil, nil, err
	}
	schema, internal := &extensions.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if err := json.Unmarshal(written, schema); err != nil {
		return nil, nil, err
	}
	err = extensions.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil)
	if set := internal.Properties["size"].Default; set != nil {
		return internal, *set, err
	}
	return internal, nil, err
}

// takes tells whether the API server takes each value by the schema of a field.
func takes(text string, values ...any) {
	fmt.Print(text)
	schema, _, err := read(text)
	if err != nil {
		fmt.Println(": error", err)
		return
	}
	validator, _, err := validation.NewSchemaValidator(schema)
	if err != nil {
		panic(err)
	}
	for _, value := range values {
		errs := validation.ValidateCustomResource(field.NewPath("spec"), map[string]any{"size": value}, validator)
		fmt.Printf(": %v %t", value, len(errs) == 0)
	}
	fmt.Println()
}

func defaults(text string) {
	_, value, err := read(text)
	if err != nil {
		fmt.Println(text + ": no JSON")
		return
	}
	fmt.Printf("%s: %q of %d characters\n", text, value, len(value.(string)))
}

func main() {
	takes("integer | minimum=1", int64(1), int64(-1))
	takes("[]integer | minimum=1", []any{int64(1)}, []any{int64(-1)})
	takes("map[string]integer | minimum=1", map[string]any{"eu": int64(1)}, map[string]any{"eu": int64(-1)})
	takes("string | maximum=3", "a", "abcdef")
	takes("[]string | maxLength=3")
	takes("[]string | pattern=a")
	takes(`string | pattern="\\bweb\\b"`, "the web", "webs")
	defaults("string | default=web")
	defaults(`string | default="\\bweb\\b"`)
	defaults(`string | default="C:\\temp\\new"`)
	defaults(`string | default="\\d+"`)
	defaults(`string | default="say \"hi\""`)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kubernetes-sigs/kro@v0.9.4 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
integer | minimum=1: 1 true: -1 false
[]integer | minimum=1: [1] true: [-1] true
map[string]integer | minimum=1: map[eu:1] true: map[eu:-1] true
string | maximum=3: a true: abcdef true
[]string | maxLength=3: error field size: maxLength marker is only valid for string types, got type: array
[]string | pattern=a: error field size: pattern marker is only valid for string types, got type: array
string | pattern="\\bweb\\b": the web true: webs false
string | default=web: "web" of 3 characters
string | default="\\bweb\\b": "\bweb\b" of 5 characters
string | default="C:\\temp\\new": "C:\temp\new" of 9 characters
string | default="\\d+": no JSON
string | default="say \"hi\"": no JSON
EOF

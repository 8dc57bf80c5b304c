#!/bin/sh
# k8s.io/kube-state-metrics/v2 v2.18.0: metrics of custom resources, configured as its documentation says.
# Guess: a gauge of a text that is no number has no value, and a list look-up such as [name=1.30] finds the entry of that name.
# Seen: a text is a quantity before all else. Of the intervals that Flux and others write, 5m is 0.005, five thousandths, and 90m is less than
# 1; 1h and 30s have no value at all. The look-up compares numbers too: [name=1.30] finds the entry 1.3 that stands before it, and
# [status=Unknown] the condition that is False, because both are 0.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >config.yaml <<'EOF'
kind: CustomResourceStateMetrics
spec:
  resources:
  - groupVersionKind: {group: example.com, version: v1, kind: Sync}
    metrics:
    - name: interval
      each: {type: gauge, gauge: {path: [spec, interval]}}
    - name: nodes
      each: {type: gauge, gauge: {path: [status, versions, "[name=1.30]", nodes]}}
    - name: unknown
      each: {type: info, info: {path: [status, conditions, "[status=Unknown]"], labelsFromPath: {type: [type]}}}
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-state-metrics/v2/pkg/customresourcestate"
	generator "k8s.io/kube-state-metrics/v2/pkg/metric_generator"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

const of = `customresource_group="example.com",customresource_kind="Sync",customresource_version="v1"`
const status = `
versions: [{name: "1.3", nodes: 2}, {name: "1.30", nodes: 7}]
conditions: [{type: Failed, status: "False"}, {type: Ready, status: Unknown}]
`

func written(family generator.FamilyGenerator, object *unstructured.Unstructured) string {
	return strings.TrimSpace(strings.ReplaceAll(string(family.Generate(object).ByteSlice()), of, ""))
}

func main() {
	file, err := os.Open("config.yaml")
	if err != nil {
		panic(err)
	}
	config := customresourcestate.Metrics{}
	if err := goyaml.NewDecoder(file).Decode(&config); err != nil {
		panic(err)
	}
	factory, err := customresourcestate.NewCustomResourceMetrics(config.Spec.Resources[0])
	if err != nil {
		panic(err)
	}
	generators := factory.MetricFamilyGenerators()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	parsed := map[string]any{}
	if err := yaml.Unmarshal([]byte(status), &parsed); err != nil {
		panic(err)
	}
	object.Object["status"] = parsed
	for _, interval := range []string{"300", "5m", "90m", "1h", "30s", "1h30m"} {
		object.Object["spec"] = map[string]any{"interval": interval}
		fmt.Println(strings.TrimSpace("interval " + interval + ": " + written(generators[0], object)))
	}
	for _, each := range generators[1:] {
		fmt.Println(written(each, object))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/kube-state-metrics/v2@v2.18.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen 2>log || cat log
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
interval 300: kube_customresource_interval{} 300
interval 5m: kube_customresource_interval{} 0.005
interval 90m: kube_customresource_interval{} 0.09
interval 1h:
interval 30s:
interval 1h30m:
kube_customresource_nodes{} 2
kube_customresource_unknown{,type="Failed"} 1
EOF

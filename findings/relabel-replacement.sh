#!/bin/sh
# github.com/prometheus/prometheus v0.316.0 (Prometheus 3.16): the action replace of a relabel_config, on a target of the cluster prod.
# Guess: $1 is the first group of the regex, whatever follows it; and a rule whose source labels the target lacks leaves the target as it is.
# Seen: $1_eu is the group named "1_eu", which there is none of, so that the value is empty, and an empty value takes the label away: with
# cluster gone the series of several clusters become one. $1-eu works, ${1}_eu too. The default regex matches an absent label, so that
# `source_labels: [zone], target_label: cluster` removes the cluster of each target that has no zone. Nothing is said when the rules are read.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >rules.yaml <<'EOF'
- {source_labels: [cluster], target_label: cluster, replacement: $1-eu}
- {source_labels: [cluster], target_label: cluster, replacement: $1_eu}
- {source_labels: [cluster], target_label: cluster, replacement: $1eu}
- {source_labels: [cluster], target_label: cluster, replacement: '${1}_eu'}
- {source_labels: [zone], target_label: cluster}
- {source_labels: [zone], target_label: cluster, regex: (.+)}
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"gopkg.in/yaml.v2"
)

func main() {
	file, err := os.ReadFile("rules.yaml")
	if err != nil {
		panic(err)
	}
	var rules []*relabel.Config
	if err := yaml.UnmarshalStrict(file, &rules); err != nil {
		panic(err)
	}
	for _, rule := range rules {
		if err := rule.Validate(model.UTF8Validation); err != nil {
			panic(err)
		}
		target := labels.NewBuilder(labels.FromStrings("cluster", "prod", "job", "kubelet"))
		kept := relabel.ProcessBuilder(target, rule)
		fmt.Println(rule.SourceLabels, rule.Regex.String(), rule.Replacement, "gives", target.Labels(), kept)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/prometheus/prometheus/model/relabel@v0.316.0 gopkg.in/yaml.v2@v2.4.0 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cluster (.*) $1-eu gives {cluster="prod-eu", job="kubelet"} true
cluster (.*) $1_eu gives {job="kubelet"} true
cluster (.*) $1eu gives {job="kubelet"} true
cluster (.*) ${1}_eu gives {cluster="prod_eu", job="kubelet"} true
zone (.*) $1 gives {job="kubelet"} true
zone (.+) $1 gives {cluster="prod", job="kubelet"} true
EOF

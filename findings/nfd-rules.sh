#!/bin/sh
# sigs.k8s.io/node-feature-discovery v0.18.2: whether a rule of a NodeFeatureRule labels a node, by the features that were found there.
# Guess: NotIn is that of node selectors, also true where the key is absent, as its documentation says no more than "input is not equal to any
# of the values"; so vendor NotIn [10de] labels the nodes without a card of NVIDIA, those with no device too.
# Seen: a node whose kernel does not know the option at all gets no label, though it has not the value. Of several devices one that differs
# is enough: the node with a card of NVIDIA and an adapter of another vendor is labelled as one without NVIDIA, while the node that has no
# device is not, and DoesNotExist does not find it either.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	nfd "sigs.k8s.io/node-feature-discovery/api/nfd/v1alpha1"
	"sigs.k8s.io/node-feature-discovery/pkg/apis/nfd/nodefeaturerule"
)

type found map[string]string

// labelled tells whether a rule of this one expression labels a node whose kernel has the options, and which has the devices.
func labelled(feature, key string, op nfd.MatchOp, values []string, options found, devices ...found) bool {
	node := nfd.NewFeatures()
	node.Attributes["kernel.config"] = nfd.NewAttributeFeatures(options)
	instances := nfd.NewInstanceFeatures()
	for _, device := range devices {
		instances.Elements = append(instances.Elements, *nfd.NewInstanceFeature(device))
	}
	node.Instances["pci.device"] = instances
	term := nfd.FeatureMatcherTerm{Feature: feature, MatchExpressions: &nfd.MatchExpressionSet{key: {Op: op, Value: values}}}
	rule := &nfd.Rule{Labels: found{"example.com/found": "true"}, MatchFeatures: nfd.FeatureMatcher{term}}
	output, err := nodefeaturerule.Execute(rule, node, true)
	if err != nil {
		panic(err)
	}
	return len(output.Labels) > 0
}

func main() {
	selector, err := labels.Parse("PREEMPT_RT notin (y)")
	if err != nil {
		panic(err)
	}
	for _, options := range []found{{"PREEMPT_RT": "y"}, {"PREEMPT_RT": "n"}, {"NO_HZ": "y"}} {
		rule := labelled("kernel.config", "PREEMPT_RT", nfd.MatchNotIn, []string{"y"}, options)
		fmt.Println("PREEMPT_RT NotIn [y]:", options, "rule", rule, "selector", selector.Matches(labels.Set(options)))
	}
	nvidia, intel := found{"vendor": "10de"}, found{"vendor": "8086"}
	for _, devices := range [][]found{{nvidia}, {intel}, {nvidia, intel}, {}} {
		fmt.Println("vendor NotIn [10de]:", devices, labelled("pci.device", "vendor", nfd.MatchNotIn, []string{"10de"}, nil, devices...))
	}
	fmt.Println("vendor DoesNotExist:", []found{}, labelled("pci.device", "vendor", nfd.MatchDoesNotExist, nil, nil))
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/node-feature-discovery@v0.18.2 sigs.k8s.io/node-feature-discovery/api/nfd@v0.18.2 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
PREEMPT_RT NotIn [y]: map[PREEMPT_RT:y] rule false selector false
PREEMPT_RT NotIn [y]: map[PREEMPT_RT:n] rule true selector true
PREEMPT_RT NotIn [y]: map[NO_HZ:y] rule false selector true
vendor NotIn [10de]: [map[vendor:10de]] false
vendor NotIn [10de]: [map[vendor:8086]] true
vendor NotIn [10de]: [map[vendor:10de] map[vendor:8086]] true
vendor NotIn [10de]: [] false
vendor DoesNotExist: [] false
EOF

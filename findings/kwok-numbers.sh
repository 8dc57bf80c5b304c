#!/bin/sh
# sigs.k8s.io/kwok v0.8.0, which plays the nodes and objects of clusters: whether the selector of a Stage takes an object by a field of it.
# Guess: values of matchExpressions are texts, and what the key finds is compared as it is written: "true" takes a flag, and "3" a number.
# Seen: "true" takes a flag, and no value takes a number. In is false and NotIn true whatever stands in the object, so of two Stages for the
# restarts of a pod the one with NotIn ["3"] plays on pods that restarted three times as well, and the other on none. No error is given. A
# key that ends in jq's tostring, and an expression in CEL, tell them apart.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

func stage(name string, expression internalversion.MatchExpression) *internalversion.Stage {
	stage := &internalversion.Stage{}
	stage.Name = name
	stage.Spec.Selector = &internalversion.StageSelector{MatchExpressions: []internalversion.MatchExpression{expression}}
	return stage
}

func jq(key string, operator internalversion.SelectorOperator, value string) *internalversion.Stage {
	expression := &internalversion.SelectorJQ{Key: key, Operator: operator, Values: []string{value}}
	return stage(fmt.Sprintf("%s %s [%s]", key, operator, value), internalversion.MatchExpression{JQ: expression})
}

func cel(expression string) *internalversion.Stage {
	return stage(expression, internalversion.MatchExpression{CEL: &internalversion.ExpressionCEL{Expression: expression}})
}

func show(title string, object any, stages ...*internalversion.Stage) {
	fmt.Println(title)
	for _, each := range stages {
		all, err := lifecycle.NewLifecycle([]*internalversion.Stage{each})
		if err != nil {
			panic(err)
		}
		plays, err := all.ListAllPossible(context.Background(), &lifecycle.Event{Data: object})
		if err != nil {
			panic(err)
		}
		fmt.Printf("  %s: %t\n", each.Name, len(plays) == 1)
	}
}

func main() {
	const in, notIn = internalversion.SelectorOpIn, internalversion.SelectorOpNotIn
	restarts, ready := ".status.containerStatuses.[].restartCount", ".status.containerStatuses.[].ready"
	for _, count := range []int32{0, 3} {
		pod := &corev1.Pod{}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", RestartCount: count, Ready: true}}
		show(fmt.Sprintf("a pod that is ready, restarts %d", count), pod, jq(ready, in, "true"), jq(ready, notIn, "true"),
			jq(restarts, in, "3"), jq(restarts, notIn, "3"), jq(restarts+" | tostring", in, "3"))
	}
	job := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"completions": int64(1), "size": 1.5, "tier": "1"}}}
	show("a custom object, completions 1, size 1.5, tier \"1\"", job, jq(".spec.completions", in, "1"), jq(".spec.completions", notIn, "1"),
		jq(".spec.size", in, "1.5"), jq(".spec.tier", in, "1"), cel("self.spec.completions == 1"))
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/kwok@v0.8.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
a pod that is ready, restarts 0
  .status.containerStatuses.[].ready In [true]: true
  .status.containerStatuses.[].ready NotIn [true]: false
  .status.containerStatuses.[].restartCount In [3]: false
  .status.containerStatuses.[].restartCount NotIn [3]: true
  .status.containerStatuses.[].restartCount | tostring In [3]: false
a pod that is ready, restarts 3
  .status.containerStatuses.[].ready In [true]: true
  .status.containerStatuses.[].ready NotIn [true]: false
  .status.containerStatuses.[].restartCount In [3]: false
  .status.containerStatuses.[].restartCount NotIn [3]: true
  .status.containerStatuses.[].restartCount | tostring In [3]: true
a custom object, completions 1, size 1.5, tier "1"
  .spec.completions In [1]: false
  .spec.completions NotIn [1]: true
  .spec.size In [1.5]: false
  .spec.tier In [1]: true
  self.spec.completions == 1: true
EOF

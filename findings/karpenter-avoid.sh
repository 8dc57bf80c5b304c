#!/bin/sh
# sigs.k8s.io/karpenter v1.14.0: whether a pod fits on a node that is to be made, by its required node affinity on a label, here team, of which
# the NodePool says nothing; and the labels of that node.
# Guess: what kube-scheduler makes of it. A pod with team NotIn [red] fits, and the node has no such label; one with In [blue] fits on none.
# Seen: for the first pod the node is labelled, with a number drawn at random for its team. Beside the first pod the second one fits too: the
# node is labelled blue, though nobody but that pod says so, and without the first pod it gets no node.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	provisioning "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

func pod(operator corev1.NodeSelectorOperator, values ...string) *corev1.Pod {
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: operator, Values: values}}}}
	required := &corev1.NodeSelector{NodeSelectorTerms: terms}
	affinity := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
	return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: affinity}}}
}

func place(pods ...*corev1.Pod) {
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "example.com", Kind: "NodeClass", Name: "default"}
	node := provisioning.NewNodeClaimTemplate(pool)
	for _, each := range pods {
		requirements := scheduling.NewPodRequirements(each)
		fits := node.Requirements.IsCompatible(requirements, scheduling.AllowUndefinedWellKnownLabels)
		if fits {
			node.Requirements.Add(requirements.Values()...)
		}
		fmt.Printf("%s fits: %v; ", requirements, fits)
	}
	team, labelled := node.ToNodeClaim().Labels["team"]
	if regexp.MustCompile("^[0-9]+$").MatchString(team) {
		team = "a number"
	}
	if !labelled {
		team = "nothing"
	}
	fmt.Printf("the node's team is %s\n", team)
}

func main() {
	notRed, blue := pod(corev1.NodeSelectorOpNotIn, "red"), pod(corev1.NodeSelectorOpIn, "blue")
	place(pod(corev1.NodeSelectorOpDoesNotExist))
	place(notRed)
	place(blue)
	place(notRed, blue)
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/karpenter@v1.14.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
team DoesNotExist fits: true; the node's team is nothing
team NotIn [red] fits: true; the node's team is a number
team In [blue] fits: false; the node's team is nothing
team NotIn [red] fits: true; team In [blue] fits: true; the node's team is blue
EOF

#!/bin/sh
# k8s.io/component-helpers v0.36.3: node affinity as the scheduler of Kubernetes 1.36 reads it.
# Guess: a preference that can't be read, as Gt with "1.5", counts for nothing; the others still give their weight.
# Seen: an error for all of them, with which the scheduler gives the pod no node at all, soft as preferences are; the API server
# admits it, as it asks for one value that may be a label's. A required term that can't be read is passed over if another fits.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

func term(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func main() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": "ssd", "speed": "2"}}}
	disk := term("disk", corev1.NodeSelectorOpIn, "ssd")
	for _, limit := range []string{"1", "1.5"} {
		speed := term("speed", corev1.NodeSelectorOpGt, limit)
		preferred, err := nodeaffinity.NewPreferredSchedulingTerms([]corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: speed}, {Weight: 50, Preference: disk},
		})
		if err != nil {
			fmt.Println("preferred: Gt", limit, "error:", err)
		} else {
			fmt.Println("preferred: Gt", limit, "score", preferred.Score(node))
		}
		required := nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{speed, disk}})
		fits, err := required.Match(node)
		fmt.Println("required: Gt", limit, "fits", fits, err)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/component-helpers@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
preferred: Gt 1 score 51
required: Gt 1 fits true <nil>
preferred: Gt 1.5 error: [0].matchExpressions[0].values[0]: Invalid value: "1.5": for 'Gt', 'Lt' operators, the value must be an integer
required: Gt 1.5 fits true <nil>
EOF

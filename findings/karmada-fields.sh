#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: an OverridePolicy with a fieldOverrider, which changes a value within a text of YAML, here a key of
# a ConfigMap, for one cluster.
# Guess: that value changes and all else stays, in each document of the text.
# Seen: the first document alone is kept, and what stands behind --- is gone on that cluster, without an error. Untouched values are
# written anew: version 1.10 becomes 1.1 and mode 0644 becomes 420; comments go, keys are sorted.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/gclient"
	"github.com/karmada-io/karmada/pkg/util/overridemanager"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const text = `# the shop's own settings
zone: none
version: 1.10
mode: 0644
---
limits: {rate: 100}
`

func main() {
	overrider := policyv1alpha1.FieldOverrider{FieldPath: "/data/settings.yaml", YAML: []policyv1alpha1.YAMLPatchOperation{
		{SubPath: "/zone", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`"west"`)}},
	}}
	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "west", Namespace: "shop"}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"}}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{
		{Overriders: policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{overrider}}},
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member"}}
	hub := fake.NewClientBuilder().WithScheme(gclient.NewSchema()).WithObjects(policy, cluster).Build()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "shop"},
		"data": map[string]any{"settings.yaml": text},
	}}
	_, _, err := overridemanager.New(hub, record.NewFakeRecorder(10)).ApplyOverridePolicies(object, "member")
	made, _, _ := unstructured.NestedString(object.Object, "data", "settings.yaml")
	fmt.Printf("error: %v\n%s", err, made)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
error: <nil>
mode: 420
version: 1.1
zone: west
EOF

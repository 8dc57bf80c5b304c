#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: a FederatedResourceQuota over all clusters, with its enforcement on (feature FederatedQuotaEnforcement),
# and a workload of 10 replicas that request 1 cpu and 1Gi each.
# Guess: as with a ResourceQuota of Kubernetes, to which it hands the same names in each cluster: cpu and requests.cpu are one.
# Seen: only the name that stands in the pods' requests counts. A quota of requests.cpu, of limits.cpu or of pods is accepted as valid, says
# that nothing is used, and admits everything.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"encoding/json"
	"fmt"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/features"
	"github.com/karmada-io/karmada/pkg/webhook/federatedresourcequota"
	"github.com/karmada-io/karmada/pkg/webhook/resourcebinding"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func create(object client.Object) admission.Request {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: object.GetNamespace(), Name: object.GetName(), Object: runtime.RawExtension{Raw: raw},
	}}
}

func main() {
	ctx := context.Background()
	if err := features.FeatureGate.Set("FederatedQuotaEnforcement=true"); err != nil {
		panic(err)
	}
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{policyv1alpha1.Install, workv1alpha2.Install} {
		if err := install(scheme); err != nil {
			panic(err)
		}
	}
	decoder := admission.NewDecoder(scheme)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "one", Replicas: 5}, {Name: "two", Replicas: 5}}
	binding.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}
	for _, name := range []corev1.ResourceName{"cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "pods"} {
		quota := &policyv1alpha1.FederatedResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "quota"}}
		quota.Spec.Overall = corev1.ResourceList{name: resource.MustParse("2")}
		valid := (&federatedresourcequota.ValidatingAdmission{Decoder: decoder}).Handle(ctx, create(quota))
		hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(quota).WithStatusSubresource(quota).Build()
		admitted := (&resourcebinding.ValidatingAdmission{Client: hub, Decoder: decoder}).Handle(ctx, create(binding))
		fmt.Printf("%s: 2, valid %v, 10 replicas admitted %v\n", name, valid.Allowed, admitted.Allowed)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen 2>log || cat log
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cpu: 2, valid true, 10 replicas admitted false
requests.cpu: 2, valid true, 10 replicas admitted true
limits.cpu: 2, valid true, 10 replicas admitted true
memory: 2, valid true, 10 replicas admitted false
requests.memory: 2, valid true, 10 replicas admitted true
pods: 2, valid true, 10 replicas admitted true
EOF

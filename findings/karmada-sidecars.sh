#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: the requests of a Pod by which its scheduler and its estimators count the replicas that a cluster has
# room for, beside k8s.io/component-helpers v0.35.3, with which kube-scheduler counts them.
# Guess: the same sum, as the comment says of the former that it is almost Kubernetes' own.
# Seen: a sidecar, an init container that is restarted always, runs beside the others, and Karmada counts it as an init container that ends:
# the greater of both instead of the sum. Requests of the pod as a whole are none, so a cluster takes as many as it may have pods.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >pods.yaml <<'EOF'
name: containers
containers: [{name: main, resources: {requests: {cpu: "1"}}}, {name: proxy, resources: {requests: {cpu: "1"}}}]
---
name: a sidecar
containers: [{name: main, resources: {requests: {cpu: "1"}}}]
initContainers: [{name: proxy, restartPolicy: Always, resources: {requests: {cpu: "1"}}}]
---
name: a sidecar, then an init container
containers: [{name: main, resources: {requests: {cpu: "1"}}}]
initContainers:
- {name: proxy, restartPolicy: Always, resources: {requests: {cpu: "1"}}}
- {name: migrate, resources: {requests: {cpu: "2"}}}
---
name: the pod as a whole
resources: {requests: {cpu: "2"}}
containers: [{name: main}, {name: proxy}]
EOF
cat >main.go <<'EOF'
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	"github.com/karmada-io/karmada/pkg/estimator/client"
	"github.com/karmada-io/karmada/pkg/util/helper"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/yaml"
)

func main() {
	cluster := &clusterv1alpha1.Cluster{}
	cluster.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("12"), corev1.ResourcePods: resource.MustParse("110"),
	}}
	file, err := os.ReadFile("pods.yaml")
	if err != nil {
		panic(err)
	}
	for _, document := range bytes.Split(file, []byte("---\n")) {
		var name struct{ Name string }
		template := &corev1.PodTemplateSpec{}
		if err := yaml.Unmarshal(document, &name); err != nil {
			panic(err)
		}
		if err := yaml.Unmarshal(document, &template.Spec); err != nil {
			panic(err)
		}
		needed := resourcehelper.PodRequests(&corev1.Pod{Spec: template.Spec}, resourcehelper.PodResourcesOptions{})
		requirements := helper.GenerateReplicaRequirements(template)
		counted := "none"
		if requirements != nil {
			counted = requirements.ResourceRequest.Cpu().String()
		}
		request := client.ReplicaEstimationRequest{Clusters: []*clusterv1alpha1.Cluster{cluster}, ReplicaRequirements: requirements}
		room, err := client.NewGeneralEstimator().MaxAvailableReplicas(context.Background(), request)
		if err != nil {
			panic(err)
		}
		fits := 12000 / needed.Cpu().MilliValue()
		fmt.Printf("%s: kube-scheduler counts %s, Karmada %s; of 12 cpu %d fit, Karmada takes %d\n", name.Name, needed.Cpu(), counted, fits, room[0].Replicas)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 k8s.io/component-helpers@v0.35.3 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
containers: kube-scheduler counts 2, Karmada 2; of 12 cpu 6 fit, Karmada takes 6
a sidecar: kube-scheduler counts 2, Karmada 1; of 12 cpu 6 fit, Karmada takes 12
a sidecar, then an init container: kube-scheduler counts 3, Karmada 2; of 12 cpu 4 fit, Karmada takes 6
the pod as a whole: kube-scheduler counts 2, Karmada none; of 12 cpu 6 fit, Karmada takes 110
EOF

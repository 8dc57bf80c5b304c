#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: the sum by which a FederatedHPA says how many replicas a workload needs, from the use of its pods in
# all clusters. Here two clusters run two pods each, which request 1 cpu, and the target is 50 %.
# Guess: the mean of all four pods, as a HorizontalPodAutoscaler takes it in one cluster.
# Seen: pods are told apart by their names alone. Those of a Deployment differ, those of a StatefulSet are web-0 and web-1 in both clusters:
# the use that is listed last counts for both. With one busy cluster and an idle one it says 0 or 8 replicas, where 4 are right, and if the
# order of the clusters changes, the other one.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/karmada-io/karmada/pkg/controllers/federatedhpa"
	"github.com/karmada-io/karmada/pkg/controllers/federatedhpa/metrics"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/testing"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned/fake"
)

func cpu(cores string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores)}
}

func say(names, use []string) {
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: started}
	container := corev1.Container{Name: "web", Resources: corev1.ResourceRequirements{Requests: cpu("1")}}
	pods := []*corev1.Pod{}
	list := &metricsv1beta1.PodMetricsList{}
	for i, name := range names {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, Conditions: []corev1.PodCondition{ready}},
		})
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Timestamp:  metav1.Now(),
			Window:     metav1.Duration{Duration: time.Minute},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: container.Name, Usage: cpu(use[i])}},
		})
	}
	clientset := fake.NewSimpleClientset()
	clientset.PrependReactor("list", "pods", func(testing.Action) (bool, runtime.Object, error) { return true, list, nil })
	calculator := federatedhpa.NewReplicaCalculator(metrics.NewRESTMetricsClient(clientset.MetricsV1beta1(), nil, nil), 0.1, 0, 0)
	replicas, utilization, _, _, err := calculator.GetResourceReplicas(
		context.Background(), int32(len(pods)), 50, corev1.ResourceCPU, "shop", labels.Everything(), "", pods, 1)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%v use %v of 1 cpu: %d %%, %d replicas\n", names, use, utilization, replicas)
}

func main() {
	say([]string{"web-x4k2p", "web-m8t5z", "web-b6vqd", "web-c9rnw"}, []string{"1", "1", "0", "0"})
	say([]string{"web-0", "web-1", "web-0", "web-1"}, []string{"1", "1", "0", "0"})
	say([]string{"web-0", "web-1", "web-0", "web-1"}, []string{"0", "0", "1", "1"})
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
[web-x4k2p web-m8t5z web-b6vqd web-c9rnw] use [1 1 0 0] of 1 cpu: 50 %, 4 replicas
[web-0 web-1 web-0 web-1] use [1 1 0 0] of 1 cpu: 0 %, 0 replicas
[web-0 web-1 web-0 web-1] use [0 0 1 1] of 1 cpu: 100 %, 8 replicas
EOF

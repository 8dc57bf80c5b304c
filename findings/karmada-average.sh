#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: the sum by which a FederatedHPA says how many replicas a workload needs, from the requests per second
# of its Service, with a target of 1 for each pod (type Object, AverageValue). The workload says 10 replicas. The calibration is what the
# FederatedHPA passes: the replicas of the clusters that answer, divided by these 10.
# Guess: the same number that a metric of the pods themselves (type Pods) gives for the same load.
# Seen: it divides by the calibration twice. Copied to two clusters, the workload gets no replica more when its load doubles; divided among
# two, of which one does not answer, it gets 40, where 20 are what the other metric says.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"github.com/karmada-io/karmada/pkg/controllers/federatedhpa"
	"github.com/karmada-io/karmada/pkg/controllers/federatedhpa/metrics"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/testing"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/client/custom_metrics/fake"
)

func say(title string, running int, load int64) {
	pods := []*corev1.Pod{}
	ofPods := &v1beta2.MetricValueList{}
	for i := range running {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		pods = append(pods, pod)
		ofPods.Items = append(ofPods.Items, v1beta2.MetricValue{
			DescribedObject: corev1.ObjectReference{Name: pod.Name},
			Value:           *resource.NewMilliQuantity(load*1000/int64(running), resource.DecimalSI),
		})
	}
	ofService := &v1beta2.MetricValueList{Items: []v1beta2.MetricValue{{Value: *resource.NewQuantity(load, resource.DecimalSI)}}}
	client := &fake.FakeCustomMetricsClient{}
	client.AddReactor("get", "pods", func(testing.Action) (bool, runtime.Object, error) { return true, ofPods, nil })
	client.AddReactor("get", "*", func(testing.Action) (bool, runtime.Object, error) { return true, ofService, nil })
	calculator := federatedhpa.NewReplicaCalculator(metrics.NewRESTMetricsClient(nil, client, nil), 0.1, 0, 0)
	calibration := float64(running) / 10
	service := &autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "web"}
	all := labels.Everything()
	pod, _, _, err := calculator.GetMetricReplicas(10, 1000, "requests", "shop", all, all, pods, calibration)
	if err != nil {
		panic(err)
	}
	object, _, _, err := calculator.GetObjectPerPodMetricReplicas(int32(running), 1000, "requests", "shop", service, all, calibration)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %d pods, calibration %v, load %d: by Pods %d, by Object %d\n", title, running, calibration, load, pod, object)
}

func main() {
	say("divided", 10, 10)
	say("divided", 10, 20)
	say("copied to two clusters", 20, 20)
	say("copied to two clusters", 20, 40)
	say("divided, half of it answers", 5, 5)
	say("divided, half of it answers", 5, 10)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
divided: 10 pods, calibration 1, load 10: by Pods 10, by Object 10
divided: 10 pods, calibration 1, load 20: by Pods 20, by Object 20
copied to two clusters: 20 pods, calibration 2, load 20: by Pods 10, by Object 10
copied to two clusters: 20 pods, calibration 2, load 40: by Pods 20, by Object 10
divided, half of it answers: 5 pods, calibration 0.5, load 5: by Pods 10, by Object 10
divided, half of it answers: 5 pods, calibration 0.5, load 10: by Pods 20, by Object 40
EOF

#!/bin/sh
# open-cluster-management.io/sdk-go v1.2.0: the progressive rollout of Open Cluster Management, by which a ManifestWorkReplicaSet
# goes through the clusters of a Placement.
# Guess: maxConcurrency 0% begins nowhere, 7% of 100 clusters are 7, and with maxFailures 6 a failed one of 5 stops nothing.
# Seen: 0% begins on all clusters at once, as 0 does. 7% are 8, as the product of floats is rounded up. A maxFailures above the
# number of clusters is not cut to it but counts as 0: the first failure stops the rollout. The schema admits all of these.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	rollout "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	placement "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
)

type decisions []*clusterv1beta1.PlacementDecision

func (d decisions) List(labels.Selector, string) ([]*clusterv1beta1.PlacementDecision, error) {
	return d, nil
}

func show(clusters, failed int, concurrency, failures string) {
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{clusterv1beta1.DecisionGroupIndexLabel: "0"},
	}}
	statuses := []rollout.ClusterRolloutStatus{}
	for i := range clusters {
		status := rollout.ClusterRolloutStatus{ClusterName: fmt.Sprint("cluster-", i), Status: rollout.ToApply}
		if i < failed {
			status.Status = rollout.Failed
		}
		statuses = append(statuses, status)
		decision.Status.Decisions = append(decision.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: status.ClusterName})
	}
	tracker := placement.NewPlacementDecisionClustersTracker(&clusterv1beta1.Placement{}, decisions{decision}, sets.New[string]())
	if err := tracker.Refresh(); err != nil {
		panic(err)
	}
	handler, err := rollout.NewRolloutHandler(tracker, func(string, int) (rollout.ClusterRolloutStatus, error) {
		return rollout.ClusterRolloutStatus{}, nil
	})
	if err != nil {
		panic(err)
	}
	progressive := &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.Parse(concurrency)}
	progressive.MaxFailures = intstr.Parse(failures)
	strategy := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: progressive}
	_, result, err := handler.GetRolloutCluster(strategy, statuses)
	fmt.Printf("%d clusters, %d failed, maxConcurrency %s, maxFailures %s: %d begin, stopped %v, %v\n",
		clusters, failed, concurrency, failures, len(result.ClustersToRollout), result.MaxFailureBreach, err)
}

func main() {
	show(5, 0, "2", "0")
	show(5, 0, "0%", "0")
	show(100, 0, "7%", "0")
	show(5, 1, "2", "5")
	show(5, 1, "2", "6")
}
EOF
go mod init example.com/finding 2>log || cat log
go get open-cluster-management.io/sdk-go@v1.2.0 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
5 clusters, 0 failed, maxConcurrency 2, maxFailures 0: 2 begin, stopped false, <nil>
5 clusters, 0 failed, maxConcurrency 0%, maxFailures 0: 5 begin, stopped false, <nil>
100 clusters, 0 failed, maxConcurrency 7%, maxFailures 0: 8 begin, stopped false, <nil>
5 clusters, 1 failed, maxConcurrency 2, maxFailures 5: 2 begin, stopped false, <nil>
5 clusters, 1 failed, maxConcurrency 2, maxFailures 6: 1 begin, stopped true, <nil>
EOF

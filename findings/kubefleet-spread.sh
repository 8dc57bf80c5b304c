#!/bin/sh
# github.com/kubefleet-dev/kubefleet v0.1.2: the spread constraints by which its scheduler chooses the clusters of a PickN placement, here
# over regions with maxSkew 1 and DoNotSchedule.
# Guess: the next cluster may always be one of the region that has the fewest, as with pods in Kubernetes: it makes the skew no worse.
# Seen: it may only if the skew of all regions is within maxSkew afterwards. Beside 3 clusters in one region, a region that joins gets
# none, and two that join get none beside 2: the placement stays short of its number for good, with free clusters in each region.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/kubefleet-dev/kubefleet/apis/cluster/v1beta1"
	placementv1beta1 "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/framework"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/framework/plugins/topologyspreadconstraints"
)

var policy = placementv1beta1.ClusterSchedulingPolicySnapshot{}

func next(placed ...int) {
	clusters := []clusterv1beta1.MemberCluster{}
	bindings := []placementv1beta1.BindingObj{}
	for region, n := range placed {
		for i := range n + 1 { // the last one of each region is free
			cluster := clusterv1beta1.MemberCluster{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint(region, "-", i), Labels: map[string]string{"region": fmt.Sprint(region)},
			}}
			clusters = append(clusters, cluster)
			if i < n {
				spec := placementv1beta1.ResourceBindingSpec{TargetCluster: cluster.Name}
				bindings = append(bindings, &placementv1beta1.ClusterResourceBinding{Spec: spec})
			}
		}
	}
	plugin := topologyspreadconstraints.New()
	state := framework.NewCycleState(clusters, nil, bindings)
	if status := plugin.PreFilter(context.Background(), state, &policy); !status.IsSuccess() {
		panic(status)
	}
	fits := []string{}
	for _, cluster := range clusters {
		if plugin.Filter(context.Background(), state, &policy, &cluster).IsSuccess() && !state.HasScheduledOrBoundBindingFor(cluster.Name) {
			fits = append(fits, cluster.Labels["region"])
		}
	}
	fmt.Println("clusters in use by region:", placed, "fewest:", slices.Min(placed), "regions for the next:", fits)
}

func main() {
	skew := int32(1)
	policy.Spec.Policy = &placementv1beta1.PlacementPolicy{
		PlacementType: placementv1beta1.PickNPlacementType,
		TopologySpreadConstraints: []placementv1beta1.TopologySpreadConstraint{
			{TopologyKey: "region", MaxSkew: &skew, WhenUnsatisfiable: placementv1beta1.DoNotSchedule},
		},
	}
	next(1, 0)
	next(2, 0)
	next(3, 0)
	next(1, 0, 0)
	next(2, 0, 0)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/kubefleet-dev/kubefleet@v0.1.2 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
clusters in use by region: [1 0] fewest: 0 regions for the next: [1]
clusters in use by region: [2 0] fewest: 0 regions for the next: [1]
clusters in use by region: [3 0] fewest: 0 regions for the next: []
clusters in use by region: [1 0 0] fewest: 0 regions for the next: [1 2]
clusters in use by region: [2 0 0] fewest: 0 regions for the next: []
EOF

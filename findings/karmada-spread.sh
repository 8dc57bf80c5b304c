#!/bin/sh
# github.com/karmada-io/karmada v1.18.1: spreadConstraints of a policy, as its scheduler selects clusters by them; here four clusters, of which
# only the last is in another region, zone and provider.
# Guess: each of the fields that the API names, cluster, region, zone and provider, is spread over, whatever divides the replicas.
# Seen: over cluster and region it is. By zone and provider only clusters that have none are left out, and both copies come into one zone.
# With static weights no constraint counts, so a maxGroups of 2 gives four clusters. A label is an error, by which nothing is placed.
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
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/scheduler/core/spreadconstraint"
	"github.com/karmada-io/karmada/pkg/scheduler/framework"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const room = 10

func available(clusters []*clusterv1alpha1.Cluster, _ *workv1alpha2.ResourceBindingSpec) []workv1alpha2.TargetCluster {
	found := []workv1alpha2.TargetCluster{}
	for _, each := range clusters {
		found = append(found, workv1alpha2.TargetCluster{Name: each.Name, Replicas: room})
	}
	return found
}

func show(name string, scheduling *policyv1alpha1.ReplicaSchedulingStrategy, constraints ...policyv1alpha1.SpreadConstraint) {
	scores := framework.ClusterScoreList{}
	for i := range 4 {
		place := "first"
		if i == 3 {
			place = "second"
		}
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("member-", i+1), Labels: map[string]string{"rack": place}}}
		cluster.Spec.Region, cluster.Spec.Provider, cluster.Spec.Zones = place, place, []string{place}
		scores = append(scores, framework.ClusterScore{Cluster: cluster, Score: 100})
	}
	placement := &policyv1alpha1.Placement{ReplicaScheduling: scheduling, SpreadConstraints: constraints}
	spec := &workv1alpha2.ResourceBindingSpec{Replicas: 4, Placement: placement}
	groups := spreadconstraint.GroupClustersWithScore(scores, placement, spec, &workv1alpha2.ResourceBindingStatus{}, available)
	selected, err := spreadconstraint.SelectBestClusters(placement, groups, spec.Replicas)
	names := []string{}
	for _, each := range selected {
		names = append(names, each.Name)
	}
	fmt.Println(name, names, err)
}

func two(field policyv1alpha1.SpreadFieldValue) policyv1alpha1.SpreadConstraint {
	return policyv1alpha1.SpreadConstraint{SpreadByField: field, MinGroups: 2, MaxGroups: 2}
}

func main() {
	clusters := two(policyv1alpha1.SpreadByFieldCluster)
	show("2 clusters:", nil, clusters)
	show("2 clusters of 2 regions:", nil, clusters, two(policyv1alpha1.SpreadByFieldRegion))
	show("2 clusters of 2 zones:", nil, clusters, two(policyv1alpha1.SpreadByFieldZone))
	show("2 clusters of 2 providers:", nil, clusters, two(policyv1alpha1.SpreadByFieldProvider))
	show("2 racks:", nil, policyv1alpha1.SpreadConstraint{SpreadByLabel: "rack", MinGroups: 2, MaxGroups: 2})
	everywhere := []policyv1alpha1.StaticClusterWeight{{Weight: 1}}
	show("2 clusters, with static weights:", &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference:          &policyv1alpha1.ClusterPreferences{StaticWeightList: everywhere},
	}, clusters)
}
EOF
go mod init example.com/finding 2>log || cat log
go get github.com/karmada-io/karmada@v1.18.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
2 clusters: [member-1 member-2] <nil>
2 clusters of 2 regions: [member-1 member-4] <nil>
2 clusters of 2 zones: [member-1 member-2] <nil>
2 clusters of 2 providers: [member-1 member-2] <nil>
2 racks: [] just support cluster and region spread constraint
2 clusters, with static weights: [member-1 member-2 member-3 member-4] <nil>
EOF

#!/bin/sh
# kubernetes 37.0.2 (PyPI): leaderelection with its LeaseLock, beside k8s.io/client-go v0.36.3: a candidate of short leases meets a Lease
# that another holds for an hour, as in a rollout that shortens them, or where two programs share a name.
# Guess: it waits for an hour after it saw the last renewal, as leaseDurationSeconds of the Lease says, and counts leaseTransitions up.
# Seen: it waits for its own duration, of 3 seconds here, and takes the Lease: two lead. Without acquireTime, which is optional, it takes
# what is held at once. The count of transitions, by which others tell terms of leadership apart, stays. client-go waits in both cases.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2
cd "$dir"
cat >elect.py <<'EOF'
import datetime
import importlib.metadata
import threading
import time
from unittest import mock

from kubernetes import client
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock


class Server:
    def __init__(self, spec):
        self.lease = client.V1Lease(metadata={"name": "hub"}, spec=spec)

    def read_namespaced_lease(self, name, namespace):
        return self.lease

    def replace_namespaced_lease(self, name, namespace, body):
        self.lease = body


def meet(label, **times):
    spec = client.V1LeaseSpec(holder_identity="first", lease_duration_seconds=3600, lease_transitions=4, **times)
    server, leads = Server(spec), threading.Event()
    with mock.patch("kubernetes.client.CoordinationV1Api", lambda: server):
        lock = LeaseLock("hub", "default", "second")
    election = leaderelection.LeaderElection(
        electionconfig.Config(lock, lease_duration=3, renew_deadline=2, retry_period=1, onstarted_leading=leads.set, onstopped_leading=None)
    )
    threading.Thread(target=election.run, daemon=True).start()
    leads.wait(30)
    print(f"{label}: holder {server.lease.spec.holder_identity}, transitions {server.lease.spec.lease_transitions}")


print("kubernetes", importlib.metadata.version("kubernetes"))
now = datetime.datetime.now(datetime.timezone.utc)
meet("held for an hour", acquire_time=now, renew_time=now)
meet("without acquireTime", renew_time=now)
EOF
cat >main.go <<'EOF'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type lock struct{ record resourcelock.LeaderElectionRecord }

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	raw, err := json.Marshal(l.record)
	return &l.record, raw, err
}
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.record = r
	return nil
}
func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return "second" }
func (l *lock) Describe() string   { return "hub" }

func meet(label string, acquired metav1.Time) {
	held := &lock{resourcelock.LeaderElectionRecord{
		HolderIdentity: "first", LeaseDurationSeconds: 3600, LeaderTransitions: 4, AcquireTime: acquired, RenewTime: metav1.Now(),
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: held, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	fmt.Printf("%s: holder %s, transitions %d\n", label, held.record.HolderIdentity, held.record.LeaderTransitions)
}

func main() {
	fmt.Println("client-go")
	meet("held for an hour", metav1.Now())
	meet("without acquireTime", metav1.Time{})
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/client-go@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
venv/bin/python elect.py >seen
go run . >>seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes 37.0.2
held for an hour: holder second, transitions 4
without acquireTime: holder second, transitions 4
client-go
held for an hour: holder first, transitions 4
without acquireTime: holder first, transitions 4
EOF

#!/bin/sh
# kubernetes 37.0.2 and lightkube 1.0.1 (PyPI) beside k8s.io/apimachinery v0.36.3: a Lease renewed in the first
# microsecond of a second, as every `replace(microsecond=0)` makes it.
# Guess: both clients write the type MicroTime so that the API server reads it.
# Seen: both leave the fraction out, and MicroTime takes six digits only: a Lease that was read can't be written back.
# What renews a Lease at random times meets it once in a million.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1
cd "$dir"
cat >write.py <<'EOF'
import json
from datetime import datetime, timezone

from kubernetes import client
from lightkube.models.coordination_v1 import LeaseSpec

for moment in (datetime(2026, 11, 28, 10, tzinfo=timezone.utc), datetime(2026, 11, 28, 10, 0, 0, 1, timezone.utc)):
    official = client.ApiClient().sanitize_for_serialization(client.V1LeaseSpec(renew_time=moment))
    for name, spec in (("kubernetes", official), ("lightkube", LeaseSpec(renewTime=moment).to_dict())):
        print(name, json.dumps(spec["renewTime"]))
EOF
cat >main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	var client, text string
	for {
		if n, _ := fmt.Scan(&client, &text); n < 2 {
			return
		}
		var micro metav1.MicroTime
		err := json.Unmarshal([]byte(text), &micro)
		fmt.Println(client, text, "read:", err == nil)
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get k8s.io/apimachinery@v0.36.3 2>log || cat log
go mod tidy 2>log || cat log
"$dir/venv/bin/python" write.py | go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
kubernetes "2026-11-28T10:00:00+00:00" read: false
lightkube "2026-11-28T10:00:00Z" read: false
kubernetes "2026-11-28T10:00:00.000001+00:00" read: true
lightkube "2026-11-28T10:00:00.000001Z" read: true
EOF

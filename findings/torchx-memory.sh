#!/bin/sh
# torchx 0.7.0 (PyPI): the requests of a pod that it makes of a Role for its Kubernetes scheduler, which runs Volcano Jobs.
# Guess: requests and limits are the cpu and the memory of the Role, or a little less for what the node itself needs.
# Seen: 100m and 1024M are left out of each pod's requests, down to zero: a Role of 1024 MB requests no memory at all, and one of 0.1 cpu
# no cpu. Schedulers and quotas take it for one that fits anywhere.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check torchx==0.7.0 kubernetes==36.0.3
cat >"$dir/pods.py" <<'EOF'
from torchx.schedulers.kubernetes_scheduler import role_to_pod
from torchx.specs import Resource, Role

for cpu, memory in ((4, 8192), (1, 2048), (1, 1024), (0.1, 512)):
    role = Role(name="trainer", image="example.com/trainer:1", resource=Resource(cpu=cpu, gpu=0, memMB=memory))
    made = role_to_pod("trainer-0", role, service_account=None).spec.containers[0].resources
    print(f"cpu={cpu} memMB={memory}: requests {made.requests} limits {made.limits}")
EOF
"$dir/venv/bin/python" "$dir/pods.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
cpu=4 memMB=8192: requests {'cpu': '3900m', 'memory': '7168M'} limits {'cpu': '4000m', 'memory': '8192M'}
cpu=1 memMB=2048: requests {'cpu': '900m', 'memory': '1024M'} limits {'cpu': '1000m', 'memory': '2048M'}
cpu=1 memMB=1024: requests {'cpu': '900m', 'memory': '0M'} limits {'cpu': '1000m', 'memory': '1024M'}
cpu=0.1 memMB=512: requests {'cpu': '0m', 'memory': '0M'} limits {'cpu': '100m', 'memory': '512M'}
EOF

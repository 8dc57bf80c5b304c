#!/bin/sh
# kubernetes.core 6.2.0, Ansible's collection, in ansible 12.3.0 (PyPI): the module k8s with apply: true, which has its own merge of what was
# applied before, what is applied now, and what the cluster has.
# Guess: as `kubectl apply` does, it changes nothing if the manifest is the same, and keeps what others added to a list of containers.
# Seen: ports of a Service and of a container are told apart by their number alone: of 53 for TCP and 53 for UDP the second run leaves one.
# A CronJob is spelled otherwise in its table, so its containers are replaced as a list: a sidecar that a webhook added goes with each run.
# In a Deployment it stays.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check ansible==12.3.0 kubernetes==36.0.3
cat >"$dir/apply.py" <<'EOF'
import copy

from ansible_collections.kubernetes.core.plugins.module_utils.apply import annotate, apply_patch, dict_merge


def again(kind, spec, change):
    """Return the spec of the patch of a second run, after the cluster changed the object so."""
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web", "annotations": {}}, "spec": spec}
    stored = dict_merge(copy.deepcopy(manifest), annotate(manifest))
    change(stored["spec"])
    return apply_patch(stored, copy.deepcopy(manifest))[1].get("spec")


def inject(spec):
    spec["template"]["spec"]["containers"].append({"name": "sidecar"})


def inject_job(spec):
    inject(spec["jobTemplate"]["spec"])


pod = {"template": {"spec": {"containers": [{"name": "main"}]}}}
ports = [{"name": "dns-tcp", "port": 53, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
print("Service:", again("Service", {"ports": ports}, lambda spec: None))
print("Deployment:", again("Deployment", pod, inject))
print("CronJob:", again("CronJob", {"jobTemplate": {"spec": pod}}, inject_job))
EOF
"$dir/venv/bin/python" "$dir/apply.py" >"$dir/seen"
cat "$dir/seen"
diff "$dir/seen" - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Service: {'ports': [{'name': 'dns', 'port': 53, 'protocol': 'UDP'}]}
Deployment: {'template': {'spec': {'containers': [{'name': 'main'}, {'name': 'sidecar'}]}}}
CronJob: {'jobTemplate': {'spec': {'template': {'spec': {'containers': [{'name': 'main'}]}}}}}
EOF

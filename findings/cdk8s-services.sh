#!/bin/sh
# cdk8s-plus-34 2.0.54, with cdk8s 2.70.106 and constructs 10.8.1 (npm): the selector of a Service made of what it "requires to select".
# Guess: a Service knows labels alone, so a selector with an expression that none can stand for raises, In with one value becomes a label, and
# select() of two Deployments is, as its documentation says, an AND. Pods.all() selects each pod, as in a NetworkPolicy.
# Seen: expressions are left out without a word. Of "app web whose track is not canary" app=web is left, so the canary gets the requests. Of
# expressions alone and of Pods.all() an empty selector is left, with which Kubernetes gives the Service no endpoint at all. Of two Deployments
# the Service selects the last one.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund cdk8s-plus-34@2.0.54 cdk8s@2.70.106 constructs@10.8.1 >log || cat log
cat >show.cjs <<'EOF'
const { Testing } = require("cdk8s");
const { Deployment, LabelExpression, NetworkPolicy, Pods, Service } = require("cdk8s-plus-34");

function show(title, ...selections) {
  const chart = Testing.chart();
  const selectors = selections.map((select, index) => select(chart, "pods-" + index));
  const service = new Service(chart, "service", { ports: [{ port: 80 }] });
  for (const selector of selectors) service.select(selector);
  const policy = new NetworkPolicy(chart, "policy", { selector: selectors[0] });
  console.log(title);
  console.log("  Service", JSON.stringify(Testing.synth(chart).find(({ kind }) => kind === "Service").spec.selector));
  if (selectors.length === 1) console.log("  NetworkPolicy", JSON.stringify(policy.apiObject.toJson().spec.podSelector));
}

const labels = { app: "web" };
const expressions = [LabelExpression.notIn("track", ["canary"])];
show("labels", (chart, id) => Pods.select(chart, id, { labels }));
show("labels and an expression", (chart, id) => Pods.select(chart, id, { labels, expressions }));
show("app In [web]", (chart, id) => Pods.select(chart, id, { expressions: [LabelExpression.in("app", ["web"])] }));
show("all", (chart, id) => Pods.all(chart, id));

function deployment(chart, id) {
  return new Deployment(chart, id, { containers: [{ image: "web:1", portNumber: 80 }] });
}
show("two Deployments", deployment, deployment);
EOF
node show.cjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
labels
  Service {"app":"web"}
  NetworkPolicy {"matchLabels":{"app":"web"}}
labels and an expression
  Service {"app":"web"}
  NetworkPolicy {"matchExpressions":[{"key":"track","operator":"NotIn","values":["canary"]}],"matchLabels":{"app":"web"}}
app In [web]
  Service {}
  NetworkPolicy {"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}
all
  Service {}
  NetworkPolicy {}
two Deployments
  Service {"cdk8s.io/metadata.addr":"test-pods-1-c808c500"}
EOF

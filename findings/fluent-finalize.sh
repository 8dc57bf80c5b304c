#!/bin/sh
# kubernetes-fluent-client 3.11.6 (npm, of Pepr): Finalize, against a stand-in for the API server that applies what a forced server-side apply
# names. Between the request that reads the Deployment and the one that writes it an autoscaler sets 10 replicas and a user a new image.
# Guess: a server-side apply of one finalizer names this finalizer, and leaves all else to those who own it.
# Seen: it reads the object, and applies all of it by force, with the old replicas and the old image, without the resourceVersion by which the
# API server would have refused the write. What others changed meanwhile is undone, and every field belongs to the field manager "pepr" since.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund kubernetes-fluent-client@3.11.6 >log || cat log
cat >finalize.mjs <<'EOF'
import fs from "node:fs";
import http from "node:http";
import { once } from "node:events";
import { K8s, kind } from "kubernetes-fluent-client";

const apply = (onto, from) => {
  for (const [key, value] of Object.entries(from)) {
    if (value === null || typeof value !== "object" || Array.isArray(value)) onto[key] = value;
    else apply((onto[key] ??= {}), value);
  }
};
const leaves = (object, path) => Object.entries(object).flatMap(([key, value]) => {
  const nested = value !== null && typeof value === "object" && !Array.isArray(value);
  return nested ? leaves(value, `${path}.${key}`) : [`${path}.${key}`];
});
const web = {
  apiVersion: "apps/v1", kind: "Deployment",
  metadata: { name: "web", namespace: "shop", resourceVersion: "7", labels: { app: "web" } },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: "web" } },
    template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "web", image: "web:1" }] } },
  },
};
const server = http.createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  if (request.method === "PATCH") {
    const applied = JSON.parse(body);
    console.log(request.headers["content-type"], new URL(request.url, "http://hub").search);
    console.log("resourceVersion:", applied.metadata.resourceVersion);
    console.log("names:", leaves(applied, "").filter((path) => !path.startsWith(".metadata")).join(" "));
    apply(web, applied);
  }
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(web));
  if (request.method === "GET") {
    web.spec.replicas = 10;
    web.spec.template.spec.containers = [{ name: "web", image: "web:2" }];
    web.metadata.resourceVersion = "9";
  }
});

await once(server.listen(0, "127.0.0.1"), "listening");
fs.writeFileSync("kubeconfig", JSON.stringify({
  apiVersion: "v1", kind: "Config", "current-context": "hub", users: [{ name: "hub", user: {} }],
  clusters: [{ name: "hub", cluster: { server: `http://127.0.0.1:${server.address().port}`, "insecure-skip-tls-verify": true } }],
  contexts: [{ name: "hub", context: { cluster: "hub", user: "hub" } }],
}));
process.env.KUBECONFIG = "kubeconfig";
await K8s(kind.Deployment).InNamespace("shop").Finalize("add", "example.com/backup", "web");
console.log("then:", web.metadata.finalizers.join(" "), web.spec.replicas, "replicas", web.spec.template.spec.containers[0].image);
process.exit(0);
EOF
node finalize.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
application/apply-patch+yaml ?fieldManager=pepr&fieldValidation=Strict&force=true
resourceVersion: undefined
names: .apiVersion .kind .spec.replicas .spec.selector.matchLabels.app .spec.template.metadata.labels.app .spec.template.spec.containers
then: example.com/backup 3 replicas web:1
EOF

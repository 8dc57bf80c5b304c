#!/bin/sh
# kubernetes-fluent-client 3.11.6 (npm, of Pepr) against a stand-in for the API server that, as this does, takes a label selector for a
# collection alone and knows no context. The kubeconfig's context names the namespace shop.
# Guess: Delete takes out the object that it is given, in the context's namespace where none is named, and with WithLabel, as its comment says,
# only if the object has the label.
# Seen: with an object that has generateName for a name it deletes all of its kind in the namespace. The label of WithLabel does not protect
# the object that is named. Without InNamespace it asks for a path that no object of a namespace has, takes the 404 for "already gone", and
# returns: nothing is deleted, and nothing says so.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund kubernetes-fluent-client@3.11.6 >log || cat log
cat >delete.mjs <<'EOF'
import fs from "node:fs";
import http from "node:http";
import { once } from "node:events";
import { K8s, kind } from "kubernetes-fluent-client";

let objects = new Map();
const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://hub");
  const labels = (url.searchParams.get("labelSelector") ?? "").split(",").filter(Boolean).map((each) => each.split("="));
  const taken = [...objects.keys()].filter((path) => {
    if (path === url.pathname) return true;
    return path.slice(0, path.lastIndexOf("/")) === url.pathname && labels.every(([key, value]) => objects.get(path)[key] === value);
  });
  console.log(" ", request.method, decodeURIComponent(request.url));
  if (request.method === "DELETE") taken.forEach((path) => objects.delete(path));
  const code = taken.length ? 200 : 404;
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify({ kind: "Status", apiVersion: "v1", code }));
});

await once(server.listen(0, "127.0.0.1"), "listening");
fs.writeFileSync("kubeconfig", JSON.stringify({
  apiVersion: "v1", kind: "Config", "current-context": "hub", users: [{ name: "hub", user: {} }],
  clusters: [{ name: "hub", cluster: { server: `http://127.0.0.1:${server.address().port}`, "insecure-skip-tls-verify": true } }],
  contexts: [{ name: "hub", context: { cluster: "hub", user: "hub", namespace: "shop" } }],
}));
process.env.KUBECONFIG = "kubeconfig";

async function show(title, action) {
  objects = new Map([
    ["/apis/batch/v1/namespaces/shop/jobs/migrate-7xk2p", { app: "migrate" }],
    ["/apis/batch/v1/namespaces/shop/jobs/invoices", { app: "invoices" }],
    ["/apis/apps/v1/namespaces/shop/deployments/web", { track: "new" }],
  ]);
  console.log(title);
  await action();
  console.log("  left:", [...objects.keys()].map((path) => path.split("/").pop()).join(" "));
}

const job = { metadata: { generateName: "migrate-", namespace: "shop", labels: { app: "migrate" } } };
await show("a Job with generateName", () => K8s(kind.Job).Delete(job));
await show("web, if its track is old", () => K8s(kind.Deployment).InNamespace("shop").WithLabel("track", "old").Delete("web"));
await show("web, in the context's namespace", () => K8s(kind.Deployment).Delete("web"));
process.exit(0);
EOF
node delete.mjs >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
a Job with generateName
  DELETE /apis/batch/v1/namespaces/shop/jobs
  left: web
web, if its track is old
  DELETE /apis/apps/v1/namespaces/shop/deployments/web?labelSelector=track=old
  left: migrate-7xk2p invoices
web, in the context's namespace
  DELETE /apis/apps/v1/deployments/web
  left: migrate-7xk2p invoices web
EOF

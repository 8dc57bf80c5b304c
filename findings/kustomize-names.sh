#!/bin/sh
# sigs.k8s.io/kustomize/api v0.21.1, the kustomize of kubectl 0.36.3: references to objects that it renames, between built-in kinds.
# Guess: each follows, as the documentation of the generators and of namePrefix says; only custom kinds need a configuration.
# Seen: left behind are the Secret of a csi and an azureFile volume and in `secrets` of a ServiceAccount, the ConfigMap of a
# ReplicationController, the storage class of an ephemeral volume and the Service of a CustomResourceDefinition's webhook.
# Nothing is said; the pods wait for a volume that never comes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >kustomization.yaml <<'EOF'
namePrefix: eu-
resources: [all.yaml]
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator: [{name: settings, literals: [a=b]}]
secretGenerator: [{name: password, literals: [a=b]}]
EOF
cat >all.yaml <<'EOF'
{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, envFrom: [{configMapRef: {name: settings}}]}]
  volumes:
  - {name: a, secret: {secretName: password}}
  - {name: b, csi: {driver: example.com, nodePublishSecretRef: {name: password}}}
  - {name: c, azureFile: {secretName: password, shareName: c}}
  - {name: d, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, envFrom: [{configMapRef: {name: settings}}]}]}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: web}, imagePullSecrets: [{name: password}], secrets: [{name: password}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.example.com}
spec: {conversion: {webhook: {clientConfig: {service: {name: hook}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: queues}
webhooks: [{clientConfig: {service: {name: hook}}}]
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), ".")
	if err != nil {
		panic(err)
	}
	for _, object := range built.Resources() {
		text, err := object.MarshalJSON()
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}
EOF
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/kustomize/api@v0.21.1 2>log || cat log
go mod tidy 2>log || cat log
go run . >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
{"apiVersion":"v1","kind":"Service","metadata":{"name":"eu-hook"},"spec":{}}
{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"eu-fast"},"provisioner":"example.com"}
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"eu-web"},"spec":{"containers":[{"envFrom":[{"configMapRef":{"name":"eu-settings"}}],"name":"web"}],"volumes":[{"name":"a","secret":{"secretName":"eu-password"}},{"csi":{"driver":"example.com","nodePublishSecretRef":{"name":"password"}},"name":"b"},{"azureFile":{"secretName":"password","shareName":"c"},"name":"c"},{"ephemeral":{"volumeClaimTemplate":{"spec":{"storageClassName":"fast"}}},"name":"d"}]}}
{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"eu-web"},"spec":{"template":{"spec":{"containers":[{"envFrom":[{"configMapRef":{"name":"settings"}}],"name":"web"}]}}}}
{"apiVersion":"v1","imagePullSecrets":[{"name":"eu-password"}],"kind":"ServiceAccount","metadata":{"name":"eu-web"},"secrets":[{"name":"password"}]}
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"queues.example.com"},"spec":{"conversion":{"webhook":{"clientConfig":{"service":{"name":"hook"}}}}}}
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"eu-queues"},"webhooks":[{"clientConfig":{"service":{"name":"eu-hook"}}}]}
{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"eu-settings"}}
{"apiVersion":"v1","data":{"a":"Yg=="},"kind":"Secret","metadata":{"name":"eu-password"},"type":"Opaque"}
EOF

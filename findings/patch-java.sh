#!/bin/sh
# io.kubernetes:client-java 27.0.0 (Maven; Java 17), the Kubernetes project's own client: merge patches made of its models, of a label and of
# a node selector, merged into stored objects with json-merge-patch 0.3.0 (PyPI).
# Guess: what was not set is not written, and so nothing else changes.
# Seen: each list and map that was not set is written as an empty one, and a merge patch replaces lists: with one label the finalizers and the
# owners of the object go, and with a node selector the containers, volumes and tolerations. Other fields that were not set are left out.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check json-merge-patch==0.3.0
cd "$dir"
cat >pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.kubernetes</groupId><artifactId>client-java</artifactId><version>27.0.0</version></dependency>
  </dependencies>
</project>
EOF
cat >Write.java <<'EOF'
import io.kubernetes.client.openapi.JSON;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.openapi.models.V1Pod;
import io.kubernetes.client.openapi.models.V1PodSpec;
import io.kubernetes.client.openapi.models.V1PodTemplate;
import io.kubernetes.client.openapi.models.V1PodTemplateSpec;

public class Write {
    public static void main(String[] arguments) {
        System.out.println(JSON.serialize(new V1Pod().metadata(new V1ObjectMeta().putLabelsItem("tier", "front"))));
        V1PodSpec spec = new V1PodSpec().putNodeSelectorItem("disk", "ssd");
        System.out.println(JSON.serialize(new V1PodTemplate().template(new V1PodTemplateSpec().spec(spec))));
    }
}
EOF
cat >merge.py <<'EOF'
import json

import json_merge_patch

STORED = [
    {"metadata": {"name": "web", "labels": {"app": "web"}, "finalizers": ["example.com/volume"], "ownerReferences": [{"name": "web-5d4f"}]}},
    {"template": {"spec": {"containers": [{"name": "web"}], "volumes": [{"name": "data"}], "tolerations": [{"key": "gpu"}]}}},
]
for stored, line in zip(STORED, open("patches")):
    patch = json.loads(line)
    print("patch:", json.dumps(patch))
    print("stored:", json.dumps(stored))
    print("then:", json.dumps(json_merge_patch.merge(stored, patch)))
EOF
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath >log 2>&1 || cat log
java -cp "$(cat classpath)" Write.java >patches 2>log || cat log
venv/bin/python merge.py >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
patch: {"metadata": {"annotations": {}, "finalizers": [], "labels": {"tier": "front"}, "ownerReferences": []}}
stored: {"metadata": {"name": "web", "labels": {"app": "web"}, "finalizers": ["example.com/volume"], "ownerReferences": [{"name": "web-5d4f"}]}}
then: {"metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}, "finalizers": [], "ownerReferences": [], "annotations": {}}}
patch: {"template": {"spec": {"containers": [], "ephemeralContainers": [], "hostAliases": [], "imagePullSecrets": [], "initContainers": [], "nodeSelector": {"disk": "ssd"}, "overhead": {}, "readinessGates": [], "resourceClaims": [], "schedulingGates": [], "tolerations": [], "topologySpreadConstraints": [], "volumes": []}}}
stored: {"template": {"spec": {"containers": [{"name": "web"}], "volumes": [{"name": "data"}], "tolerations": [{"key": "gpu"}]}}}
then: {"template": {"spec": {"containers": [], "volumes": [], "tolerations": [], "ephemeralContainers": [], "hostAliases": [], "imagePullSecrets": [], "initContainers": [], "nodeSelector": {"disk": "ssd"}, "overhead": {}, "readinessGates": [], "resourceClaims": [], "schedulingGates": [], "topologySpreadConstraints": []}}}
EOF

#!/bin/sh
# io.kubernetes:client-java 27.0.0 and io.fabric8:kubernetes-client 8.0.0 (Maven; Java 17): Readiness.isReady, by which waitUntilReady and
# programs that deploy wait for an object.
# Guess: as `kubectl rollout status`, ready once the newest generation was observed and all its pods are updated; with no replicas too.
# Seen: both call a Deployment and a StatefulSet ready of which no pod is updated, and one whose change no controller has seen. To both a
# CustomResourceDefinition that is not established is ready, and to fabric8, for which all kinds are that it does not know, a DaemonSet
# without a ready pod and a Job that failed. To client-java a Deployment of no replicas and a DaemonSet without a node never are.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >objects <<'EOF'
no pod is updated|{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 0, "readyReplicas": 3, "availableReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]}}
not observed|{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3}, "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]}}
no replicas|{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 0}, "status": {"observedGeneration": 2, "conditions": [{"type": "Available", "status": "True"}]}}
no pod is updated|{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "generation": 2}, "spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 0, "currentRevision": "a", "updateRevision": "b"}}
no pod is ready|{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"}, "spec": {}, "status": {"currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberMisscheduled": 0, "numberReady": 0}}
no node|{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"}, "spec": {}, "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}}
failed|{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "load"}, "status": {"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]}}
not established|{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "queues.example.com"}, "status": {"conditions": [{"type": "Established", "status": "False"}]}}
EOF
cat >pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.kubernetes</groupId><artifactId>client-java</artifactId><version>27.0.0</version></dependency>
    <dependency><groupId>io.fabric8</groupId><artifactId>kubernetes-client</artifactId><version>8.0.0</version></dependency>
  </dependencies>
</project>
EOF
cat >Ready.java <<'EOF'
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.client.utils.Serialization;
import io.kubernetes.client.common.KubernetesObject;
import io.kubernetes.client.util.Yaml;
import java.nio.file.Files;
import java.nio.file.Path;

public class Ready {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of("objects"))) {
            String title = line.split("\\|")[0], text = line.split("\\|")[1];
            KubernetesObject first = (KubernetesObject) Yaml.load(text);
            HasMetadata second = Serialization.unmarshal(text);
            boolean java = io.kubernetes.client.util.Readiness.isReady(first);
            boolean fabric8 = io.fabric8.kubernetes.client.readiness.Readiness.getInstance().isReady(second);
            System.out.println(second.getKind() + ", " + title + ": client-java " + java + ", fabric8 " + fabric8);
        }
    }
}
EOF
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath >log 2>&1 || cat log
{ java -cp "$(cat classpath)" Ready.java 2>log || cat log; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
Deployment, no pod is updated: client-java true, fabric8 true
Deployment, not observed: client-java true, fabric8 true
Deployment, no replicas: client-java false, fabric8 true
StatefulSet, no pod is updated: client-java true, fabric8 true
DaemonSet, no pod is ready: client-java false, fabric8 true
DaemonSet, no node: client-java false, fabric8 true
Job, failed: client-java false, fabric8 true
CustomResourceDefinition, not established: client-java true, fabric8 true
EOF

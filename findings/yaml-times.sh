#!/bin/sh
# io.kubernetes:client-java 27.0.0 (Maven; Java 17), the Kubernetes project's own client: Yaml.load on a manifest, beside sigs.k8s.io/yaml
# v1.6.0, with which kubectl reads it.
# Guess: the texts that kubectl reads, and an error where it sends something else than a text to a field for texts.
# Seen: what looks like a time of day is a count of minutes, and a day gets hours and a zone: 22:30 is "1350", in data, annotations, arguments
# and variables. 1.10, 0644 and yes, for which the API server refuses what kubectl sends, are taken for the texts "1.1", "420" and "true".
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >config.yaml <<'EOF'
apiVersion: v1
kind: ConfigMap
metadata: {name: web, annotations: {example.com/until: 2027-03-01}}
data:
  start: 22:30
  version: 1.10
  mode: 0644
  debug: yes
EOF
cat >pod.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: web, args: [--at, 22:30], env: [{name: DAY, value: 2027-03-01}]}
EOF
cat >pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.kubernetes</groupId><artifactId>client-java</artifactId><version>27.0.0</version></dependency>
  </dependencies>
</project>
EOF
cat >Read.java <<'EOF'
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1Container;
import io.kubernetes.client.openapi.models.V1Pod;
import io.kubernetes.client.util.Yaml;
import java.io.File;

public class Read {
    public static void main(String[] arguments) throws Exception {
        V1ConfigMap config = (V1ConfigMap) Yaml.load(new File("config.yaml"));
        System.out.println("client-java: " + config.getMetadata().getAnnotations() + " " + config.getData());
        V1Container container = ((V1Pod) Yaml.load(new File("pod.yaml"))).getSpec().getContainers().get(0);
        System.out.println("client-java: " + container.getArgs() + " " + container.getEnv().get(0).getValue());
    }
}
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, name := range []string{"config.yaml", "pod.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		read, err := yaml.YAMLToJSON(text)
		fmt.Println("kubectl:", string(read), err)
	}
}
EOF
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath >log 2>&1 || cat log
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/yaml@v1.6.0 2>log || cat log
go mod tidy 2>log || cat log
{ java -cp "$(cat classpath)" Read.java 2>log || cat log; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
client-java: {example.com/until=2027-03-01T00:00:00Z} {start=1350, version=1.1, mode=420, debug=true}
client-java: [--at, 1350] 2027-03-01T00:00:00Z
kubectl: {"apiVersion":"v1","data":{"debug":true,"mode":420,"start":"22:30","version":1.1},"kind":"ConfigMap","metadata":{"annotations":{"example.com/until":"2027-03-01"},"name":"web"}} <nil>
kubectl: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"args":["--at","22:30"],"env":[{"name":"DAY","value":"2027-03-01"}],"name":"web"}]}} <nil>
EOF

#!/bin/sh
# io.fabric8:kubernetes-client 8.0.0 (Maven; Java 17): Serialization.unmarshal, by which it reads manifests, beside sigs.k8s.io/yaml v1.6.0,
# with which kubectl does.
# Guess: the values that kubectl reads.
# Seen: ~ and Null are texts: a pod whose nodeName was to be empty is bound to a node of the name "~". In a custom object 0644 and yes are
# texts as well, and a merge key stays as a field of the name <<. What begins with a brace is read as JSON alone.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >object.yaml <<'EOF'
apiVersion: example.com/v1
kind: Application
metadata: {name: web, labels: &labels {app: web}}
spec:
  nodeName: ~
  zone: Null
  defaultMode: 0644
  readOnly: yes
  selector: {<<: *labels, tier: front}
EOF
cat >pod.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: ~}
EOF
cat >pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.fabric8</groupId><artifactId>kubernetes-client</artifactId><version>8.0.0</version></dependency>
  </dependencies>
</project>
EOF
cat >Read.java <<'EOF'
import io.fabric8.kubernetes.client.utils.Serialization;
import java.nio.file.Files;
import java.nio.file.Path;

public class Read {
    public static void main(String[] arguments) throws Exception {
        for (String name : new String[] {"object.yaml", "pod.yaml"}) {
            Object object = Serialization.unmarshal(Files.readString(Path.of(name)));
            System.out.println("fabric8: " + Serialization.asJson(object));
        }
        try {
            Serialization.unmarshal("{apiVersion: v1, kind: Pod}");
        } catch (Exception error) {
            System.out.println("fabric8: {apiVersion: v1, kind: Pod}: " + error.getCause().getMessage().split("\n")[0]);
        }
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
	for _, name := range []string{"object.yaml", "pod.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		read, err := yaml.YAMLToJSON(text)
		fmt.Println("kubectl:", string(read), err)
	}
	read, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: Pod}"))
	fmt.Println("kubectl:", string(read), err)
}
EOF
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath >log 2>&1 || cat log
go mod init example.com/finding 2>log || cat log
go get sigs.k8s.io/yaml@v1.6.0 2>log || cat log
go mod tidy 2>log || cat log
{ java -cp "$(cat classpath)" Read.java 2>log || cat log; go run .; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
fabric8: {"apiVersion":"example.com/v1","kind":"Application","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"nodeName":"~","zone":"Null","defaultMode":"0644","readOnly":"yes","selector":{"<<":{"app":"web"},"tier":"front"}}}
fabric8: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"~"}}
fabric8: {apiVersion: v1, kind: Pod}: Unexpected character ('a' (code 97)): was expecting double-quote to start property name
kubectl: {"apiVersion":"example.com/v1","kind":"Application","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"defaultMode":420,"nodeName":null,"readOnly":true,"selector":{"app":"web","tier":"front"},"zone":null}} <nil>
kubectl: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":null}} <nil>
kubectl: {"apiVersion":"v1","kind":"Pod"} <nil>
EOF

#!/bin/sh
# io.fabric8:kubernetes-client 8.0.0 (Maven; Java 17): Config.autoConfigure and Config.fromKubeconfig with the name of a context, beside
# kubernetes 37.0.2 (PyPI).
# Guess: a context that no file has, as of a cluster that was renamed, is an error, as with kubectl and in Python.
# Seen: the client is that of current-context. What was meant for one cluster goes to another, and nothing is raised. For a context whose
# cluster no file has it is as silent: the server is that of the cluster in which the program runs.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes==37.0.2
cd "$dir"
cat >kubeconfig <<'EOF'
apiVersion: v1
kind: Config
clusters:
- {name: paris, cluster: {server: "https://paris.example.com"}}
- {name: tokyo, cluster: {server: "https://tokyo.example.com"}}
users:
- {name: admin, user: {token: secret}}
contexts:
- {name: paris, context: {cluster: paris, user: admin}}
- {name: tokyo, context: {cluster: tokyo, user: admin}}
- {name: oslo, context: {cluster: oslo, user: admin}}
current-context: tokyo
EOF
cat >pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.fabric8</groupId><artifactId>kubernetes-client</artifactId><version>8.0.0</version></dependency>
  </dependencies>
</project>
EOF
cat >Contexts.java <<'EOF'
import io.fabric8.kubernetes.client.Config;
import java.nio.file.Files;
import java.nio.file.Path;

public class Contexts {
    static void show(String how, String name, Config config) {
        String context = config.getCurrentContext() == null ? "none" : config.getCurrentContext().getName();
        System.out.println(how + " " + name + ": " + config.getMasterUrl() + ", context " + context);
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("kubeconfig", "kubeconfig");
        String text = Files.readString(Path.of("kubeconfig"));
        for (String name : new String[] {"paris", "pariss", "oslo"}) {
            show("autoConfigure", name, Config.autoConfigure(name));
            show("fromKubeconfig", name, Config.fromKubeconfig(name, text, null));
        }
    }
}
EOF
cat >contexts.py <<'EOF'
from kubernetes import config

for name in "paris", "pariss", "oslo":
    try:
        print("Python", name + ":", config.new_client_from_config("kubeconfig", name).configuration.host)
    except config.ConfigException as error:
        print("Python", name + ":", error)
EOF
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath >log 2>&1 || cat log
{ java -cp "$(cat classpath)" Contexts.java 2>log || cat log; venv/bin/python contexts.py; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
autoConfigure paris: https://paris.example.com/, context paris
fromKubeconfig paris: https://paris.example.com/, context paris
autoConfigure pariss: https://tokyo.example.com/, context tokyo
fromKubeconfig pariss: https://tokyo.example.com/, context tokyo
autoConfigure oslo: https://kubernetes.default.svc/, context oslo
fromKubeconfig oslo: https://kubernetes.default.svc/, context oslo
Python paris: https://paris.example.com
Python pariss: Invalid kube-config file. Expected object with name pariss in kubeconfig/contexts list
Python oslo: Invalid kube-config file. Expected object with name oslo in kubeconfig/clusters list
EOF

#!/bin/sh
# io.kubernetes:client-java 27.0.0 (Maven; Java 17), the Kubernetes project's own client, on a stand-in for an API server of a newer minor.
# Guess: a field that the client does not know is passed over, as releases add fields to a version of the API, and as the clients for Go and
# Python do.
# Seen: the whole answer is an exception. One pod with one field of a newer release, in its status too, and no pod of the namespace is listed:
# what works with a fleet's older clusters ends with the first one that is upgraded.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.kubernetes</groupId><artifactId>client-java</artifactId><version>27.0.0</version></dependency>
  </dependencies>
</project>
EOF
cat >Pods.java <<'EOF'
import com.sun.net.httpserver.HttpServer;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.util.ClientBuilder;
import java.net.InetSocketAddress;

public class Pods {
    static String status = "";

    static void list(CoreV1Api api, String title) {
        try {
            System.out.println(title + ": " + api.listNamespacedPod("shop").execute().getItems().size() + " pods");
        } catch (Exception error) {
            System.out.println(title + ": " + error.getMessage().split(" JSON:")[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            String pod = "{\"metadata\": {\"name\": \"%s\"}, \"spec\": {\"containers\": [{\"name\": \"web\"}]}, \"status\": {%s}}";
            String items = String.format(pod, "web-0", "") + ", " + String.format(pod, "web-1", status);
            byte[] body = ("{\"apiVersion\": \"v1\", \"kind\": \"PodList\", \"metadata\": {}, \"items\": [" + items + "]}").getBytes();
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        ApiClient client = new ClientBuilder().setBasePath("http://127.0.0.1:" + server.getAddress().getPort()).build();
        CoreV1Api api = new CoreV1Api(client);
        list(api, "as the client knows it");
        status = "\"ofNextRelease\": \"x\"";
        list(api, "with a newer field in a status");
        server.stop(0);
        System.exit(0);
    }
}
EOF
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath >log 2>&1 || cat log
{ java -cp "$(cat classpath)" Pods.java 2>log || cat log; } >seen
cat seen
diff seen - <<'EOF' || { echo "the behaviour changed" >&2; exit 1; }
as the client knows it: 2 pods
with a newer field in a status: The field `ofNextRelease` in the JSON string is not defined in the `V1PodStatus` properties.
EOF

package scenario_test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestDeploymentNamesNeedNoDNS runs the commands of docs/local-run.md that call a deployment without resolving its
// name, with curl, Python and Node. It also checks that `fetch` of Node gets the status 404, as the page says, because
// it does not send the Host of the deployment.
func TestDeploymentNamesNeedNoDNS(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	for _, program := range []string{"python3", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(program, " has to be installed in continuous integration")
			}
			t.Skip(program + " is not installed")
		}
	}
	inst := installation
	deployed := inst.deploy(t, unique(t, "hello"), "main", project(t, []route{
		{path: "/health", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": newUpstream(t)}},
	}, ""))
	deployedURL, err := url.Parse(deployed)
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer("hello-main-0a1b2c3.localhost:9001", deployedURL.Host, "127.0.0.1:9001",
		"127.0.0.1:"+deployedURL.Port())
	steps, err := readme.ReadSteps(filepath.Join(repository, "docs", "local-run.md"), "The names of deployments", replacer)
	if err != nil {
		t.Fatal(err)
	}
	const fetchScript = `const url = new URL(process.argv[2])
console.log((await fetch("http://127.0.0.1:" + url.port + url.pathname, { headers: { Host: url.host } })).status)`
	steps = append(steps, readme.Step{
		Commands: "node --input-type=module - \"$url\" <<'END'\n" + fetchScript + "\nEND",
		Want:     "404",
	})
	if exec.CommandContext(t.Context(), "python3", "-c", "import requests").Run() == nil { // not part of Python
		const requestsScript = `import requests, sys
from urllib.parse import urlsplit
url = urlsplit(sys.argv[1])
print(requests.get(url._replace(netloc=f"127.0.0.1:{url.port}").geturl(), headers={"Host": url.netloc}).status_code)`
		steps = append(steps, readme.Step{
			Commands: "python3 - \"$url\" <<'END'\n" + requestsScript + "\nEND",
			Want:     "200",
		})
	}
	env := append(os.Environ(), "no_proxy=127.0.0.1,localhost")
	if _, err := readme.Run(t.Context(), t.TempDir(), env, steps); err != nil {
		t.Errorf("run the documented commands: %v, want no error", err)
	}
	if status, body := inst.get(t, deployed+"/health", ""); status != http.StatusOK || echoOf(t, body).Path != "/health" {
		t.Errorf("GET /health of the deployment: status = %d, want 200 and the path /health: %s", status, body)
	}
}

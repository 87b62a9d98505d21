package scenario_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestDocumentedCertificates runs the commands of the pages about certificates, with openssl and curl as real clients and upstreams.
func TestDocumentedCertificates(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	for _, page := range []string{"client-certificates.md", "mtls-certificates.md"} {
		t.Run(page, func(t *testing.T) {
			if page == "mtls-certificates.md" && os.Getenv(varFunctions) != "" {
				t.Skip("functions in processes of their own do not get the variable that names the upstream's CA")
			}
			dir := t.TempDir()
			t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "data", "warehouse", "ca.pem"))
			p := startProduct(t, dir, "dist/local")
			secure, err := url.Parse(p.TLS)
			if err != nil {
				t.Fatal(err)
			}
			port := strconv.Itoa(int(freeport.Address(t).Port()))
			replacer := strings.NewReplacer(
				"http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/", ":9443", ":"+secure.Port(), "9444", port,
			)
			steps, err := readme.ReadSteps("../../../docs/"+page, "Try it", replacer)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readme.Run(t.Context(), "../../..", os.Environ(), steps); err != nil {
				t.Fatalf("run the documented commands: %v, want no error", err)
			}
		})
	}
}

package server_test

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// certified is a certificate for names with its key, in files.
type certified struct{ certificate, key string }

func (c certified) env() []string {
	return []string{config.VarTLSCertificate + "=" + c.certificate, config.VarTLSKey + "=" + c.key}
}

// certify has a CA sign a certificate for names, and writes it.
func certify(t *testing.T, dir string, ca pkitest.Cert, names ...string) certified {
	t.Helper()
	leaf := ca.Client(t, names[0], time.Now(), func(x *pkitest.Template) {
		x.ExtKeyUsage, x.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names
	})
	return certified{
		written(t, filepath.Join(dir, "fullchain.pem"), []byte(leaf.PEM())),
		written(t, filepath.Join(dir, "privkey.pem"), []byte(leaf.KeyPEM(t))),
	}
}

// byFiles starts a server whose certificate is in files.
func byFiles(t *testing.T, env ...string) (*server, pkitest.Cert, certified) {
	t.Helper()
	ca := pkitest.CA(t, "CA", time.Now())
	files := certify(t, t.TempDir(), ca, "api."+domain, "*."+domain)
	return serving(t, filepath.Join(t.TempDir(), "data"), append(env, files.env()...)...), ca, files
}

// hello deploys a project whose one route leads to an upstream, and gives its URL.
func hello(t *testing.T, s *server, c *http.Client, upstream string) string {
	t.Helper()
	var issued struct{ UploadURL, DeploymentID string }
	body := `{"accountName":"demo","projectName":"hello","branchName":"main"}`
	send := func(method, address, content string, to any) int {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(address, "upload") {
			r.Header.Set("Authorization", "Bearer "+s.key())
		}
		out, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = out.Body.Close() }()
		if to != nil {
			if err := json.NewDecoder(out.Body).Decode(to); err != nil {
				t.Fatal(err)
			}
		}
		return out.StatusCode
	}
	api := "https://api." + domain
	if status := send(http.MethodPost, api+"/v1/deployments/sources", body, &issued); status != http.StatusOK {
		t.Fatalf("an upload is announced with %d", status)
	}
	if !strings.HasPrefix(issued.UploadURL, api+"/") {
		t.Fatalf("clients are to upload to %s", issued.UploadURL)
	}
	archive := instance.Archive(map[string]string{
		"config/routes.oas.json": `{"openapi":"3.1.0","info":{"title":"hello","version":"1"},"paths":{"/hello":{"get":{"operationId":"hello","x-gateway-route":{"handler":{"export":"urlForwardHandler","module":"$import(@gatewright/runtime)","options":{"baseUrl":"` + upstream + `"}}},"responses":{"200":{"description":"ok"}}}}}}`,
	})
	if status := send(http.MethodPut, issued.UploadURL, string(archive), nil); status != http.StatusOK {
		t.Fatalf("the upload is answered with %d", status)
	}
	var build struct {
		Status, URL string
		BuildResult json.RawMessage
	}
	s.until("the build has ended", func() bool {
		send(http.MethodGet, api+"/v1/accounts/demo/projects/hello/deployment-status/"+issued.DeploymentID, "", &build)
		return build.Status != "IN_PROGRESS"
	})
	if build.Status != "SUCCESS" {
		t.Fatalf("the build ends with %s: %s", build.Status, build.BuildResult)
	}
	return build.URL
}

// TestNamesLeadWhereTheyAreServed by HTTPS, and by plain HTTP there.
func TestNamesLeadWhereTheyAreServed(t *testing.T) {
	t.Parallel()
	s, ca, _ := byFiles(t)
	c := s.client(ca.Pool())
	deployed := hello(t, s, c, "https://example.com")
	if !strings.HasPrefix(deployed, "https://hello-") || !strings.HasSuffix(deployed, "."+domain) {
		t.Errorf("it is deployed at %s", deployed)
	}
	host := strings.TrimPrefix(deployed, "https://")
	for _, tt := range []struct {
		method, address, key string
		status               int
		location, holds      string
	}{
		{"GET", deployed + "/nothing", "", 404, "", "problem"},
		{"GET", "https://api." + domain + "/openapi", "", 200, "", "openapi"},
		{"GET", "https://API." + domain + "./openapi", "", 200, "", "openapi"},
		{"GET", "https://api." + domain + "/v1/who-am-i", "", 401, "", ""},
		{"GET", "https://relay." + domain + "/health", "", 200, "", "ok"},
		{"GET", "https://nobody-main-0a1b2c3." + domain + "/openapi", "", 404, "", ""},
		{"GET", "http://api." + domain + "/v1/who-am-i?x=1", "", 308, "https://api." + domain + "/v1/who-am-i?x=1", ""},
		{"HEAD", "http://" + host + "/a%2Fb//c", "", 308, deployed + "/a%2Fb//c", ""},
		{"GET", "http://relay." + domain + "/", "", 308, "https://relay." + domain + "/", ""},
		{"GET", "http://" + host + "/.well-known/acme-challenge/x", "", 308, deployed + "/.well-known/acme-challenge/x", ""},
		{"POST", "http://" + host + "/hello", "", 400, "", "https://"},
		{"GET", "http://api." + domain + "/v1/who-am-i", "gwa_x", 400, "", "replace a key"},
		{"GET", "http://" + domain + "/openapi", "", 404, "", ""},
		{"GET", "http://example.com/", "", 404, "", ""},
		{"GET", "http://example.com/.well-known/acme-challenge/x", "", 404, "", ""},
	} {
		out, body, err := ask(t, c, tt.method, tt.address, tt.key)
		if err != nil {
			t.Errorf("%s %s: %v", tt.method, tt.address, err)
			continue
		}
		if out.StatusCode != tt.status || out.Header.Get("Location") != tt.location || !strings.Contains(body, tt.holds) {
			t.Errorf("%s %s: %d, location %q, want %d, %q: %s", tt.method, tt.address, out.StatusCode, out.Header.Get("Location"), tt.status, tt.location, body)
		}
	}
	s.stop()
}

// TestProxyMayEndTLS before the server, which then answers at its plain address by all names.
func TestProxyMayEndTLS(t *testing.T) {
	t.Parallel()
	s := serving(t, filepath.Join(t.TempDir(), "data"), config.VarTLSAddr+"=none")
	c := s.client(x509.NewCertPool())
	for name, want := range map[string]int{"api." + domain: http.StatusOK, "nobody-main-0a1b2c3." + domain: http.StatusNotFound} {
		out, _, err := ask(t, c, http.MethodGet, "http://"+name+"/openapi", "")
		if err != nil || out.StatusCode != want {
			t.Errorf("%s: %v, want %d", name, err, want)
		}
	}
	if strings.Contains(s.printed(), "http://api.") {
		t.Error("it says that the management API is by plain HTTP")
	}
	s.stop()
}

// TestProxyOnThisMachineMaySpeakItsProtocol: the start asks the product's own addresses, as no proxy does.
func TestProxyOnThisMachineMaySpeakItsProtocol(t *testing.T) {
	t.Parallel()
	s := serving(t, filepath.Join(t.TempDir(), "data"), config.VarTLSAddr+"=none", config.VarTrustedProxies+"=127.0.0.0/8", config.VarProxyProtocol+"=true")
	if strings.Contains(s.printed(), "no PROXY header") {
		t.Error("its own question has none")
	}
	s.stop()
}

// TestCertificateIsReadAgain when its files have changed, and served on where they are no good.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	s, ca, files := byFiles(t)
	served := func() string {
		out, _, err := ask(t, s.client(ca.Pool()), http.MethodGet, "https://api."+domain+"/openapi", "")
		if err != nil {
			t.Fatal(err)
		}
		return out.TLS.PeerCertificates[0].SerialNumber.String()
	}
	first := served()
	written(t, files.key, []byte("no key"))
	s.until("it says that the files are no good", func() bool {
		return served() == first && strings.Contains(s.printed(), "served on")
	})
	certify(t, filepath.Dir(files.key), ca, "api."+domain, "*."+domain)
	s.until("the next certificate is served", func() bool { return served() != first })
	s.stop()
}

// TestWhatCannotBeServedIsOneLine, which says what to do, before anything is made.
func TestWhatCannotBeServedIsOneLine(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "CA", time.Now())
	own := []string{"api." + domain, "*." + domain}
	good, other, narrow := certify(t, t.TempDir(), ca, own...), certify(t, t.TempDir(), ca, own...), certify(t, t.TempDir(), ca, "api."+domain)
	for name, tt := range map[string]struct {
		env   []string
		wants []string
	}{
		"no domain":             {[]string{config.VarDomain + "="}, []string{config.VarDomain, "api."}},
		"an address":            {append(good.env(), config.VarDomain+"=https://example.com/"), []string{config.VarDomain, "without a scheme"}},
		"an IP address":         {append(good.env(), config.VarDomain+"=192.0.2.1"), []string{config.VarDomain}},
		"no certificate":        {nil, []string{config.VarACMEDirectory, config.VarTLSCertificate}},
		"a certificate alone":   {good.env()[:1], []string{config.VarTLSKey, "go together"}},
		"another's key":         {[]string{good.env()[0], other.env()[1]}, []string{other.key, "private key"}},
		"no file":               {[]string{config.VarTLSCertificate + "=/nowhere/x.pem", good.env()[1]}, []string{"/nowhere/x.pem", "no such file"}},
		"for api alone":         {narrow.env(), []string{"any-deployment." + domain, "api." + domain}},
		"a folder":              {[]string{good.env()[0], config.VarTLSKey + "=" + t.TempDir()}, []string{"no regular file"}},
		"text for a file":       {[]string{good.env()[0], config.VarTLSKey + "=" + keyText(t, good)}, []string{config.VarTLSKey, "not what is in it"}},
		"a folder and a space":  {append(good.env(), config.VarReadyFile+"=/tmp/ready "), []string{config.VarReadyFile, "no space"}},
		"no address of its own": {append(good.env(), config.VarAPIURL+"=secret"), []string{config.VarAPIURL}},
		"no origin":             {append(good.env(), config.VarOrigins+"=secret"), []string{config.VarOrigins}},
		"no directory":          {append(good.env(), config.VarACMEDirectory+"=http://secret"), []string{config.VarACMEDirectory}},
		"functions":             {append(good.env(), config.VarFunctions+"=dist/amd64"), []string{config.VarFunctions}},
		"an unknown setting":    {append(good.env(), "GATEWRIGHT_DOMAN=x"), []string{"GATEWRIGHT_DOMAIN"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			code, printed := launch(t, data, tt.env...).ends()
			if _, err := os.Stat(data); err == nil {
				t.Error("it has made data")
			}
			if code != 1 || strings.Count(printed, "error:") != 1 || strings.Contains(printed, "PRIVATE KEY") || strings.Contains(printed, "secret") {
				t.Errorf("it ends with %d: %s", code, printed)
			}
			for _, want := range tt.wants {
				if !strings.Contains(printed, want) {
					t.Errorf("%q is missing in %s", want, printed)
				}
			}
		})
	}
}

// keyText is what is in the file of a key.
func keyText(t *testing.T, c certified) string {
	t.Helper()
	text, err := os.ReadFile(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCommandsReachTheServer that runs over their data.
func TestCommandsReachTheServer(t *testing.T) {
	t.Parallel()
	s, ca, _ := byFiles(t)
	key := s.command("account", "create", "acme")
	out, body, err := ask(t, s.client(ca.Pool()), http.MethodGet, "https://api."+domain+"/v1/who-am-i", strings.TrimSpace(key))
	if err != nil || out.StatusCode != http.StatusOK || !strings.Contains(body, `"acme"`) {
		t.Errorf("who am I: %v %s", err, body)
	}
	s.stop()
}

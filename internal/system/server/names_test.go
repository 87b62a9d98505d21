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

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/config"
)

// certificateFiles contains the files of a certificate and its key.
type certificateFiles struct{ certificate, key string }

// env returns the settings with which a server uses the files.
func (c certificateFiles) env() []string {
	return []string{config.VarTLSCertificate + "=" + c.certificate, config.VarTLSKey + "=" + c.key}
}

// issueCertificate signs a certificate for names with a CA, and writes it to files.
func issueCertificate(t *testing.T, dir string, ca pkitest.Cert, names ...string) certificateFiles {
	t.Helper()
	leaf := ca.Client(t, names[0], time.Now(), func(x *pkitest.Template) {
		x.ExtKeyUsage, x.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names
	})
	return certificateFiles{
		writeFile(t, filepath.Join(dir, "fullchain.pem"), []byte(leaf.PEM())),
		writeFile(t, filepath.Join(dir, "privkey.pem"), []byte(leaf.KeyPEM(t))),
	}
}

// serveWithFiles starts a server whose certificate is in files.
func serveWithFiles(t *testing.T, env ...string) (*server, pkitest.Cert, certificateFiles) {
	t.Helper()
	ca := pkitest.CA(t, "CA", time.Now())
	files := issueCertificate(t, t.TempDir(), ca, "api."+domain, "*."+domain)
	return serve(t, filepath.Join(t.TempDir(), "data"), append(env, files.env()...)...), ca, files
}

// deployHello deploys a project with one route, which forwards to an upstream, and returns the URL of the deployment.
func deployHello(t *testing.T, s *server, c *http.Client, upstream string) string {
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
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if to != nil {
			if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode
	}
	api := "https://api." + domain
	if status := send(http.MethodPost, api+"/v1/deployments/sources", body, &issued); status != http.StatusOK {
		t.Fatalf("POST /v1/deployments/sources: status = %d, want 200", status)
	}
	if !strings.HasPrefix(issued.UploadURL, api+"/") {
		t.Fatalf("uploadUrl = %s, want an address below %s", issued.UploadURL, api)
	}
	archive := instance.Archive(map[string]string{
		"config/routes.oas.json": `{"openapi":"3.1.0","info":{"title":"hello","version":"1"},"paths":{"/hello":{"get":{
			"operationId":"hello",
			"x-gateway-route":{"handler":{"export":"urlForwardHandler","module":"$import(@gatewright/runtime)",
				"options":{"baseUrl":"` + upstream + `"}}},
			"responses":{"200":{"description":"ok"}}}}}}`,
	})
	if status := send(http.MethodPut, issued.UploadURL, string(archive), nil); status != http.StatusOK {
		t.Fatalf("upload: status = %d, want 200", status)
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
		t.Fatalf("the build has ended with %s, want SUCCESS: %s", build.Status, build.BuildResult)
	}
	return build.URL
}

// TestHostNamesAreRedirected checks which site each name serves over HTTPS, and that plain HTTP redirects to it.
func TestHostNamesAreRedirected(t *testing.T) {
	t.Parallel()
	s, ca, _ := serveWithFiles(t)
	c := s.client(ca.Pool())
	deployed := deployHello(t, s, c, "https://example.com")
	if !strings.HasPrefix(deployed, "https://hello-") || !strings.HasSuffix(deployed, "."+domain) {
		t.Errorf("the deployment's URL is %s, want https://hello-….%s", deployed, domain)
	}
	host := strings.TrimPrefix(deployed, "https://")
	for _, tt := range []struct {
		method, address, key string
		status               int
		location, contains   string
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
		resp, body, err := ask(t, c, tt.method, tt.address, tt.key)
		if err != nil {
			t.Errorf("%s %s: error = %v, want none", tt.method, tt.address, err)
			continue
		}
		if resp.StatusCode != tt.status || resp.Header.Get("Location") != tt.location ||
			!strings.Contains(body, tt.contains) {
			t.Errorf("%s %s: status = %d, Location = %q, want %d and %q: %s", tt.method, tt.address, resp.StatusCode,
				resp.Header.Get("Location"), tt.status, tt.location, body)
		}
	}
	s.stop()
}

// TestProxyTerminatesTLS checks that, behind a proxy that terminates TLS, the server serves all names at its plain
// address.
func TestProxyTerminatesTLS(t *testing.T) {
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"), config.VarTLSAddr+"=none")
	c := s.client(x509.NewCertPool())
	for name, want := range map[string]int{
		"api." + domain:                 http.StatusOK,
		"nobody-main-0a1b2c3." + domain: http.StatusNotFound,
	} {
		resp, _, err := ask(t, c, http.MethodGet, "http://"+name+"/openapi", "")
		if err != nil {
			t.Errorf("GET http://%s/openapi: error = %v, want none", name, err)
		} else if resp.StatusCode != want {
			t.Errorf("GET http://%s/openapi: status = %d, want %d", name, resp.StatusCode, want)
		}
	}
	if strings.Contains(s.output(), "http://api.") {
		t.Error("the log says that the management API uses plain HTTP, want no such line behind a proxy with TLS")
	}
	s.stop()
}

// TestLocalProxySendsProxyProtocol checks that the server does not log that its own connections, which it opens when it
// starts, have no PROXY header.
func TestLocalProxySendsProxyProtocol(t *testing.T) {
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"), config.VarTLSAddr+"=none", config.VarTrustedProxies+"=127.0.0.0/8",
		config.VarProxyProtocol+"=true")
	if strings.Contains(s.output(), "no PROXY header") {
		t.Error("the server logs that its own request has no PROXY header, want no such line")
	}
	s.stop()
}

// TestCertificateIsReloaded checks that the server reads changed files again, and keeps its certificate if the new
// files are invalid.
func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	s, ca, files := serveWithFiles(t)
	serial := func() string {
		resp, _, err := ask(t, s.client(ca.Pool()), http.MethodGet, "https://api."+domain+"/openapi", "")
		if err != nil {
			t.Fatal(err)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	writeFile(t, files.key, []byte("no key"))
	s.until("it logs that the files are invalid", func() bool {
		return serial() == first && strings.Contains(s.output(), "still served")
	})
	issueCertificate(t, filepath.Dir(files.key), ca, "api."+domain, "*."+domain)
	s.until("the next certificate is served", func() bool { return serial() != first })
	s.stop()
}

// TestInvalidConfigurationPrintsOneLine checks that the server does not start with an invalid setting. It must print
// one line that says what to do, and create no data.
func TestInvalidConfigurationPrintsOneLine(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "CA", time.Now())
	serverNames := []string{"api." + domain, "*." + domain}
	good, other, narrow := issueCertificate(t, t.TempDir(), ca, serverNames...),
		issueCertificate(t, t.TempDir(), ca, serverNames...), issueCertificate(t, t.TempDir(), ca, "api."+domain)
	for name, tt := range map[string]struct {
		env   []string
		wants []string
	}{
		"no domain": {[]string{config.VarDomain + "="}, []string{config.VarDomain, "api."}},
		"a URL as the domain": {
			append(good.env(), config.VarDomain+"=https://example.com/"),
			[]string{config.VarDomain, "without a scheme"},
		},
		"an IP address as the domain":    {append(good.env(), config.VarDomain+"=192.0.2.1"), []string{config.VarDomain}},
		"no certificate":                 {nil, []string{config.VarACMEDirectory, config.VarTLSCertificate}},
		"a certificate without a key":    {good.env()[:1], []string{config.VarTLSKey, "go together"}},
		"the key of another certificate": {[]string{good.env()[0], other.env()[1]}, []string{other.key, "private key"}},
		"a missing file": {
			[]string{config.VarTLSCertificate + "=/nowhere/x.pem", good.env()[1]},
			[]string{"/nowhere/x.pem", "no such file"},
		},
		"a certificate for api only": {narrow.env(), []string{"any-deployment." + domain, "api." + domain}},
		"a folder as the key file": {
			[]string{good.env()[0], config.VarTLSKey + "=" + t.TempDir()}, []string{"no regular file"},
		},
		"a key instead of a file name": {
			[]string{good.env()[0], config.VarTLSKey + "=" + keyText(t, good)},
			[]string{config.VarTLSKey, "not what is in it"},
		},
		"a file name that ends with a space": {
			append(good.env(), config.VarReadyFile+"=/tmp/ready "),
			[]string{config.VarReadyFile, "no space"},
		},
		"an invalid API URL": {append(good.env(), config.VarAPIURL+"=secret"), []string{config.VarAPIURL}},
		"an invalid origin":  {append(good.env(), config.VarOrigins+"=secret"), []string{config.VarOrigins}},
		"an ACME directory without HTTPS": {
			append(good.env(), config.VarACMEDirectory+"=http://secret"),
			[]string{config.VarACMEDirectory},
		},
		"the setting for functions": {append(good.env(), config.VarFunctions+"=dist/amd64"), []string{config.VarFunctions}},
		"an unknown setting":        {append(good.env(), "GATEWRIGHT_DOMAN=x"), []string{"GATEWRIGHT_DOMAIN"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			code, printed := startServer(t, data, tt.env...).waitExit()
			if _, err := os.Stat(data); err == nil {
				t.Errorf("the server with an invalid configuration has created %s, want no data", data)
			}
			if code != 1 || strings.Count(printed, "error:") != 1 || strings.Contains(printed, "PRIVATE KEY") ||
				strings.Contains(printed, "secret") {
				t.Errorf("exit code = %d, want 1 with one error and no secret: %s", code, printed)
			}
			for _, want := range tt.wants {
				if !strings.Contains(printed, want) {
					t.Errorf("output = %s, want %q in it", printed, want)
				}
			}
		})
	}
}

// keyText returns the contents of the key's file.
func keyText(t *testing.T, c certificateFiles) string {
	t.Helper()
	text, err := os.ReadFile(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCommandsReachTheServer checks that commands connect to the server that runs with their data directory.
func TestCommandsReachTheServer(t *testing.T) {
	t.Parallel()
	s, ca, _ := serveWithFiles(t)
	key := s.command("account", "create", "acme")
	resp, body, err := ask(t, s.client(ca.Pool()), http.MethodGet, "https://api."+domain+"/v1/who-am-i",
		strings.TrimSpace(key))
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, `"acme"`) {
		t.Errorf("GET /v1/who-am-i with the new account's key = %s, error %v, want 200 with \"acme\"", body, err)
	}
	s.stop()
}

package syntheticcheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/problem"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// fixture simulates an installation: its two servers, DNS, TLS and Parameter Store.
type fixture struct {
	key, storedKey string // the key that the API accepts and the key in Parameter Store
	reads          int
	readError      error
	// addresses has the addresses of hosts in DNS. A host without an entry does not exist.
	addresses map[string][]netip.Addr
	log       bytes.Buffer
	now       time.Time
	check     *Checker
}

func (fx *fixture) Read(context.Context, string) (string, error) {
	fx.reads++
	return fx.storedKey, fx.readError
}

func (fx *fixture) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	if found, ok := fx.addresses[host]; ok && network == "ip4" {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

const (
	apiHost     = "api.example.test"
	gatewayHost = UnknownDeployment + ".apis.example.test"
)

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// serverFault says how one of the two servers of an installation misbehaves.
type serverFault struct {
	certificate pkitest.Change
	untrusted   bool
	plain       bool // HTTP without TLS
	handler     http.HandlerFunc
}

// newFixture starts an installation whose servers have these faults.
func newFixture(t *testing.T, api, gateway serverFault) *fixture {
	t.Helper()
	fx := &fixture{
		now:       time.Now(),
		addresses: map[string][]netip.Addr{apiHost: loopback, gatewayHost: loopback},
		key:       credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now)),
	}
	fx.storedKey = fx.key
	ca, untrustedCA := pkitest.CA(t, "web", fx.now), pkitest.CA(t, "stranger", fx.now)
	start := func(host, dnsName string, m serverFault, handler http.HandlerFunc) string {
		if m.handler == nil {
			m.handler = handler
		}
		issuer := ca
		if m.untrusted {
			issuer = untrustedCA
		}
		cert := issuer.Client(t, dnsName, fx.now, func(x *x509.Certificate) {
			x.ExtKeyUsage, x.DNSNames, x.NotAfter = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{dnsName},
				fx.now.AddDate(0, 0, 30)
			if m.certificate != nil {
				m.certificate(x)
			}
		})
		server := httptest.NewUnstartedServer(m.handler)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		if m.plain {
			server.Start()
		} else {
			server.TLS = &tls.Config{
				Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: cert.Key}},
				MinVersion:   tls.VersionTLS12,
			}
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		return "https://" + net.JoinHostPort(host, port)
	}
	s := Settings{Stage: "dev", Parameter: Parameter("dev")}
	s.API = start(apiHost, apiHost, api, fx.serveManagement) + "/stage"
	s.Gateway = start(gatewayHost, "*.apis.example.test", gateway, fx.serveGateway)
	fx.check = New(s, fx, slog.New(slog.NewJSONHandler(&fx.log, nil)), func() time.Time { return fx.now })
	fx.check.resolver, fx.check.roots, fx.check.timeout = fx, x509.NewCertPool(), deadline.Timeout()
	fx.check.roots.AddCert(ca.Certificate)
	return fx
}

func (fx *fixture) serveManagement(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/stage/v1/who-am-i" {
		http.NotFound(out, r)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer "+fx.key {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintf(out, `{"sub":"akey_1","account":%q}`, Account)
}

func (fx *fixture) serveGateway(out http.ResponseWriter, r *http.Request) {
	d := problem.New(http.StatusNotFound, "No deployment is served at this host.")
	d.Trace.RequestID = "req_1"
	if name, _, _ := strings.Cut(r.Host, "."); name != UnknownDeployment || r.Header.Get("Authorization") != "" {
		d.Trace.BuildID = "bld_1"
	}
	response := d.Response()
	defer response.Body.Close()
	out.Header().Set("Content-Type", problem.ContentType)
	out.WriteHeader(response.StatusCode)
	_, _ = io.Copy(out, response.Body)
}

// line is a decoded line of the log.
type line struct {
	Level, Check, Host, Step, Error, Certificate string
	Until                                        time.Time
	ChecksPassed                                 *int
	CertificateDays                              *float64
	AWS                                          struct {
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name string }
		}
	} `json:"_aws"`
}

// run runs all checks once. It returns the step at which each check has failed, "" if it has passed, and the lines of
// the log.
func (fx *fixture) run(t *testing.T) (steps map[string]string, lines []line) {
	t.Helper()
	fx.log.Reset()
	if err := fx.check.Handle(t.Context(), json.RawMessage(`{"schedule":"minutely"}`)); err != nil {
		t.Fatalf("Handle() = %v, want no error", err)
	}
	if strings.Contains(fx.log.String(), fx.key) {
		t.Errorf("the log contains the key, want it left out:\n%s", fx.log.String())
	}
	steps = map[string]string{}
	for text := range strings.Lines(fx.log.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
		if l.ChecksPassed == nil {
			continue
		}
		name := strings.TrimPrefix(l.Check, "dev/")
		steps[name] = l.Step
		if passed := *l.ChecksPassed == 1; passed != (l.Step == "") || passed != (l.Error == "") ||
			passed != (l.Level == "INFO") {
			t.Errorf("line of %s = %+v, want one of a check that passed or one with a step and an error", name, l)
		}
	}
	return steps, lines
}

// respondWith returns a handler that sends a response with this status, content type and body.
func respondWith(status int, kind, body string) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", kind)
		out.WriteHeader(status)
		_, _ = io.WriteString(out, body)
	}
}

// respondRaw returns a handler that writes the result of text(request) to the connection instead of an HTTP response,
// and closes the connection.
func respondRaw(text func(*http.Request) string) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		conn, _, err := out.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text(r))
		_ = conn.Close()
	}
}

// htmlReply responds with a web page, as another server would.
var htmlReply = respondWith(http.StatusOK, "text/html; charset=utf-8", "<html>Welcome</html>")

// failureCases has faults of the two servers, and the steps and the error text that the checks must report.
var failureCases = map[string]struct {
	api, gateway                serverFault
	change                      func(*fixture)
	managementStep, gatewayStep string // the failed steps, "" for none
	wantText                    string // a part of the error
}{
	"no fault": {},
	"unknown host": {change: func(fx *fixture) {
		delete(fx.addresses, apiHost)
	}, managementStep: stepName, wantText: "no such host"},
	"host without an address": {change: func(fx *fixture) {
		fx.addresses[gatewayHost] = nil
	}, gatewayStep: stepName, wantText: "it has no address"},
	"closed port": {change: func(fx *fixture) {
		fx.check.Gateway = "https://" + gatewayHost + ":1"
	}, gatewayStep: stepConnection, wantText: "connect"},
	"untrusted certificate": {
		api: serverFault{untrusted: true}, managementStep: stepCertificate,
		wantText: "unknown authority",
	},
	"a certificate of another name": {gateway: serverFault{certificate: func(x *x509.Certificate) {
		x.DNSNames = []string{"apis.example.test"}
	}}, gatewayStep: stepCertificate, wantText: "apis.example.test"},
	"wildcard of a parent domain": {gateway: serverFault{certificate: func(x *x509.Certificate) {
		x.DNSNames = []string{"*.example.test"}
	}}, gatewayStep: stepCertificate, wantText: "*.example.test"},
	"expired certificate": {api: serverFault{certificate: func(x *x509.Certificate) {
		x.NotAfter = time.Now().Add(-time.Hour)
	}}, managementStep: stepCertificate, wantText: "expired"},
	"certificate that is not valid yet": {api: serverFault{certificate: func(x *x509.Certificate) {
		x.NotBefore = time.Now().Add(time.Hour)
	}}, managementStep: stepCertificate, wantText: "not yet valid"},
	"server without TLS": {
		gateway: serverFault{plain: true}, gatewayStep: stepConnection,
		wantText: "begin TLS",
	},
	"a redirect": {api: serverFault{handler: func(out http.ResponseWriter, r *http.Request) {
		http.Redirect(out, r, "https://elsewhere.example.test/", http.StatusFound)
	}}, managementStep: stepResponse, wantText: "the status 302"},
	"a page of HTML": {
		api: serverFault{handler: htmlReply}, gateway: serverFault{handler: htmlReply},
		managementStep: stepResponse, gatewayStep: stepResponse, wantText: `the type "text/html; charset=utf-8"`,
	},
	"HTML page with status 404": {gateway: serverFault{handler: respondWith(http.StatusNotFound, "text/html",
		"not found")}, gatewayStep: stepResponse, wantText: `the status 404 and the type "text/html"`},
	"another problem": {gateway: serverFault{handler: respondWith(http.StatusNotFound, problem.ContentType,
		`{"type":"about:blank","status":404}`)}, gatewayStep: stepResponse, wantText: "something else has replied"},
	"404 of a deployment": {
		gateway: serverFault{handler: respondWith(http.StatusNotFound, problem.ContentType,
			`{"type":"https://httpproblems.com/http-status/404","status":404,"trace":{"requestId":"r","buildId":"b"}}`)},
		gatewayStep: stepResponse, wantText: "something else has replied",
	},
	"invalid JSON": {
		api:            serverFault{handler: respondWith(http.StatusOK, "application/json", "{")},
		managementStep: stepResponse, wantText: "is not JSON",
	},
	"another account": {api: serverFault{handler: respondWith(http.StatusOK, "application/json",
		`{"sub":"akey_1","account":"acme"}`)}, managementStep: stepResponse, wantText: "does not name the account"},
	"503 and 502": {
		api: serverFault{handler: respondWith(http.StatusServiceUnavailable,
			problem.ContentType, `{}`)},
		gateway:        serverFault{handler: respondWith(http.StatusBadGateway, problem.ContentType, `{}`)},
		managementStep: stepResponse, gatewayStep: stepResponse, wantText: "the status 50",
	},
	"a 403 of API Gateway": {gateway: serverFault{handler: respondWith(http.StatusForbidden, "application/json",
		`{"message":"Forbidden"}`)}, gatewayStep: stepResponse, wantText: "the status 403"},
	"closed connection": {api: serverFault{handler: respondRaw(func(*http.Request) string {
		return ""
	})}, managementStep: stepResponse, wantText: "wait for the reply"},
	"truncated response": {api: serverFault{handler: respondRaw(func(*http.Request) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
	})}, managementStep: stepResponse, wantText: "read the reply"},
	"missing key in Parameter Store": {change: func(fx *fixture) {
		fx.readError = errors.New("ParameterNotFound")
	}, managementStep: stepKey, wantText: "ParameterNotFound"},
	"invalid key in Parameter Store": {change: func(fx *fixture) {
		fx.storedKey = "placeholder"
	}, managementStep: stepKey, wantText: "does not contain an account key"},
	"revoked key": {change: func(fx *fixture) {
		fx.storedKey = credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
	}, managementStep: stepResponse, wantText: "the status 401"},
	"a server that repeats the request": {api: serverFault{handler: respondRaw(func(r *http.Request) string {
		return r.Header.Get("Authorization") + "\r\n\r\n"
	})}, managementStep: stepResponse, wantText: "malformed"},
	"server that repeats the request in a content type": {api: serverFault{handler: func(out http.ResponseWriter,
		r *http.Request,
	) {
		respondWith(http.StatusOK, r.Header.Get("Authorization"), "")(out, r)
	}}, managementStep: stepResponse, wantText: "the status 200"},
}

// TestFailureNamesCheckAndStep checks that the log names the failed check and step, and that a failure of the API does
// not affect the check of the gateway, and vice versa.
func TestFailureNamesCheckAndStep(t *testing.T) {
	for name, tt := range failureCases {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t, tt.api, tt.gateway)
			if tt.change != nil {
				tt.change(fx)
			}
			steps, lines := fx.run(t)
			if len(steps) != 2 || steps[Management] != tt.managementStep || steps[Gateway] != tt.gatewayStep {
				t.Errorf("failed steps = %q, want %q of the management API and %q of the gateway\n%s", steps, tt.managementStep,
					tt.gatewayStep, fx.log.String())
			}
			for _, l := range lines {
				if l.Step != "" && !strings.Contains(l.Error, tt.wantText) {
					t.Errorf("error of %s = %q, want %q", l.Check, l.Error, tt.wantText)
				}
			}
		})
	}
}

// TestSlowServerTimesOut checks that a check fails after its timeout if a server does not respond to the TLS handshake
// or to the request.
func TestSlowServerTimesOut(t *testing.T) {
	finished := make(chan struct{})
	fx := newFixture(t, serverFault{handler: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-finished:
		}
	}}, serverFault{})
	t.Cleanup(func() { close(finished) })
	// A listener that accepts no connections, so that the TLS handshake gets no response.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	fx.check.Gateway = "https://" + net.JoinHostPort(gatewayHost, port)
	fx.check.timeout = time.Second // long enough for the other steps on any machine
	steps, _ := fx.run(t)
	if steps[Gateway] != stepConnection || steps[Management] == "" {
		t.Errorf("failed steps = %q, want connection of the gateway, and one of the management API", steps)
	}
}

// TestKeyIsReadAgainAfterRefusal checks that the key is read only once, and again only after the API has refused it,
// because each read decrypts the key.
func TestKeyIsReadAgainAfterRefusal(t *testing.T) {
	fx := newFixture(t, serverFault{}, serverFault{})
	for range 3 {
		if steps, _ := fx.run(t); steps[Management] != "" {
			t.Fatalf("failed steps = %q, want none", steps)
		}
	}
	if fx.reads != 1 {
		t.Errorf("the key was read %d times in three checks, want once", fx.reads)
	}
	fx.key = credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
	if steps, _ := fx.run(t); steps[Management] != stepResponse {
		t.Errorf("failed steps = %q, want the reply to the old key", steps)
	}
	fx.storedKey = fx.key
	if steps, _ := fx.run(t); steps[Management] != "" || fx.reads != 2 {
		t.Errorf("failed steps = %q after %d reads, want none after 2", steps, fx.reads)
	}
}

// TestLogLinesAreMetrics checks that CloudWatch can read metrics from the log: the passed checks, and the days until
// the expiry of each certificate, even of a refused one.
func TestLogLinesAreMetrics(t *testing.T) {
	fx := newFixture(t, serverFault{certificate: func(x *x509.Certificate) {
		x.NotAfter = time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	}}, serverFault{})
	_, lines := fx.run(t)
	var days []float64
	for _, l := range lines {
		metrics, name, dimension := l.AWS.CloudWatchMetrics, telemetry.ChecksPassed, "check"
		if l.CertificateDays != nil {
			days = append(days, *l.CertificateDays)
			name, dimension = telemetry.CertificateDays, "certificate"
			if l.Certificate != "dev/check" || l.Host == "" || l.Until.IsZero() {
				t.Errorf("line = %+v, want the certificate dev/check, its host and when it expires", l)
			}
		}
		if len(metrics) != 1 || metrics[0].Namespace != telemetry.Namespace || metrics[0].Dimensions[0][0] != dimension ||
			metrics[0].Metrics[0].Name != name {
			t.Errorf("metrics of a line = %+v, want %s by %s", metrics, name, dimension)
		}
	}
	if len(lines) != 4 || len(days) != 2 || days[0] > -2 || days[1] < 29 {
		t.Errorf("%d lines, and %v days, want 4 lines, -2 days and 29", len(lines), days)
	}
}

// TestInvalidSettingsAreRefused checks that settings are refused if one is missing or invalid, or if the address of the
// API, to which the key is sent, has no TLS.
func TestInvalidSettingsAreRefused(t *testing.T) {
	valid := map[string]string{
		VarStage: "dev", VarAPI: "https://api.example.com",
		VarGateway: "https://" + UnknownDeployment + ".apis.example.com", VarParameter: "/gatewright/dev/check-key",
	}
	s, err := ReadSettings(func(name string) string { return valid[name] })
	if err != nil {
		t.Fatalf("ReadSettings(%v) error = %v, want none", valid, err)
	}
	if s.API != valid[VarAPI] || s.Gateway != valid[VarGateway] || s.Stage != "dev" || s.Parameter != valid[VarParameter] {
		t.Errorf("ReadSettings(%v) = %+v, want these values", valid, s)
	}
	for name, value := range map[string]string{
		VarStage: "", VarAPI: "http://api.example.com",
		VarGateway: "apis.example.com", VarParameter: "",
	} {
		_, err := ReadSettings(func(variable string) string {
			if variable == name {
				return value
			}
			return valid[variable]
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("ReadSettings() with %s=%q: error = %v, want an error that names %s", name, value, err, name)
		}
	}
}

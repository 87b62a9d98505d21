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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway/problem"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// world is an installation that does what AWS and what stands before an installation may do, and the account's parameters.
type world struct {
	key, kept string // the key that the API accepts, and the one that Parameter Store has
	reads     int
	readError error
	// names are the addresses of hosts; a host without any is unknown to DNS.
	names map[string][]netip.Addr
	log   bytes.Buffer
	now   time.Time
	check *Checker
}

func (w *world) Read(context.Context, string) (string, error) {
	w.reads++
	return w.kept, w.readError
}

func (w *world) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	if found, is := w.names[host]; is && network == "ip4" {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

const (
	apiHost     = "api.example.test"
	gatewayHost = Unserved + ".apis.example.test"
)

var local = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// misbehaviour changes one of the two servers of an installation.
type misbehaviour struct {
	certificate pkitest.Change
	untrusted   bool
	plain       bool // it speaks HTTP where clients speak TLS
	handler     http.HandlerFunc
}

// newWorld starts an installation, whose servers misbehave as they are told.
func newWorld(t *testing.T, api, gateway misbehaviour) *world {
	t.Helper()
	w := &world{
		now:   time.Now(),
		names: map[string][]netip.Addr{apiHost: local, gatewayHost: local},
		key:   credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now)),
	}
	w.kept = w.key
	ca, stranger := pkitest.CA(t, "web", w.now), pkitest.CA(t, "stranger", w.now)
	start := func(host, certified string, m misbehaviour, good http.HandlerFunc) string {
		if m.handler == nil {
			m.handler = good
		}
		by := ca
		if m.untrusted {
			by = stranger
		}
		its := by.Client(t, certified, w.now, func(x *x509.Certificate) {
			x.ExtKeyUsage, x.DNSNames, x.NotAfter = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{certified}, w.now.AddDate(0, 0, 30)
			if m.certificate != nil {
				m.certificate(x)
			}
		})
		server := httptest.NewUnstartedServer(m.handler)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		if m.plain {
			server.Start()
		} else {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{its.Raw}, PrivateKey: its.Key}}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		return "https://" + net.JoinHostPort(host, port)
	}
	s := Settings{Stage: "dev", Parameter: Parameter("dev")}
	s.API = start(apiHost, apiHost, api, w.management) + "/stage"
	s.Gateway = start(gatewayHost, "*.apis.example.test", gateway, w.gateway)
	w.check = New(s, w, slog.New(slog.NewJSONHandler(&w.log, nil)), func() time.Time { return w.now })
	w.check.names, w.check.roots, w.check.within = w, x509.NewCertPool(), deadline.Long()
	w.check.roots.AddCert(ca.Certificate)
	return w
}

func (w *world) management(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/stage/v1/who-am-i" {
		http.NotFound(out, r)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer "+w.key {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintf(out, `{"sub":"akey_1","account":%q}`, Account)
}

func (w *world) gateway(out http.ResponseWriter, r *http.Request) {
	d := problem.New(http.StatusNotFound, "No deployment is served at this host.")
	d.Trace.RequestID = "req_1"
	if name, _, _ := strings.Cut(r.Host, "."); name != Unserved || r.Header.Get("Authorization") != "" {
		d.Trace.BuildID = "bld_1"
	}
	response := d.Response()
	defer response.Body.Close()
	out.Header().Set("Content-Type", problem.ContentType)
	out.WriteHeader(response.StatusCode)
	_, _ = io.Copy(out, response.Body)
}

// line is one of the log.
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

// run runs all checks once. It returns the step that failed of each check, "" for those that passed, and the lines.
func (w *world) run(t *testing.T) (steps map[string]string, lines []line) {
	t.Helper()
	w.log.Reset()
	if err := w.check.Handle(t.Context(), json.RawMessage(`{"schedule":"minutely"}`)); err != nil {
		t.Fatalf("Handle() = %v, want no error", err)
	}
	if strings.Contains(w.log.String(), w.key) {
		t.Errorf("the log contains the key:\n%s", w.log.String())
	}
	steps = map[string]string{}
	for text := range strings.Lines(w.log.String()) {
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
		if passed := *l.ChecksPassed == 1; passed != (l.Step == "") || passed != (l.Error == "") || passed != (l.Level == "INFO") {
			t.Errorf("line of %s = %+v, want one of a check that passed or one with a step and an error", name, l)
		}
	}
	return steps, lines
}

// says returns a handler with a reply.
func says(status int, kind, body string) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", kind)
		out.WriteHeader(status)
		_, _ = io.WriteString(out, body)
	}
}

// raw returns a handler that writes bytes instead of a reply of HTTP, and ends the connection.
func raw(text func(*http.Request) string) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		conn, _, err := out.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text(r))
		_ = conn.Close()
	}
}

// TestEachFailureIsOfItsCheckAndStep: what goes wrong at the API leaves the check of the gateway alone, and the other way round.
func TestEachFailureIsOfItsCheckAndStep(t *testing.T) {
	html := says(http.StatusOK, "text/html; charset=utf-8", "<html>Welcome</html>")
	for name, tt := range map[string]struct {
		api, gateway       misbehaviour
		change             func(*world)
		management, served string // the steps
		says               string // of the error
	}{
		"nothing is wrong":                {},
		"an unknown name":                 {change: func(w *world) { delete(w.names, apiHost) }, management: stepName, says: "no such host"},
		"a name without an address":       {change: func(w *world) { w.names[gatewayHost] = nil }, served: stepName, says: "it has no address"},
		"a port that nobody listens at":   {change: func(w *world) { w.check.Gateway = "https://" + gatewayHost + ":1" }, served: stepConnection, says: "connect"},
		"a certificate of a stranger":     {api: misbehaviour{untrusted: true}, management: stepCertificate, says: "unknown authority"},
		"a certificate of another name":   {gateway: misbehaviour{certificate: func(x *x509.Certificate) { x.DNSNames = []string{"apis.example.test"} }}, served: stepCertificate, says: "apis.example.test"},
		"a wildcard of a level above":     {gateway: misbehaviour{certificate: func(x *x509.Certificate) { x.DNSNames = []string{"*.example.test"} }}, served: stepCertificate, says: "*.example.test"},
		"a certificate that has expired":  {api: misbehaviour{certificate: func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Hour) }}, management: stepCertificate, says: "expired"},
		"a certificate of a time to come": {api: misbehaviour{certificate: func(x *x509.Certificate) { x.NotBefore = time.Now().Add(time.Hour) }}, management: stepCertificate, says: "not yet valid"},
		"a server that speaks no TLS":     {gateway: misbehaviour{plain: true}, served: stepConnection, says: "begin TLS"},
		"a redirect": {api: misbehaviour{handler: func(out http.ResponseWriter, r *http.Request) {
			http.Redirect(out, r, "https://elsewhere.example.test/", http.StatusFound)
		}}, management: stepReply, says: "the status 302"},
		"a page of HTML":                    {api: misbehaviour{handler: html}, gateway: misbehaviour{handler: html}, management: stepReply, served: stepReply, says: `the type "text/html; charset=utf-8"`},
		"a page of HTML that says 404":      {gateway: misbehaviour{handler: says(http.StatusNotFound, "text/html", "not found")}, served: stepReply, says: `the status 404 and the type "text/html"`},
		"another problem":                   {gateway: misbehaviour{handler: says(http.StatusNotFound, problem.ContentType, `{"type":"about:blank","status":404}`)}, served: stepReply, says: "something else has replied"},
		"a deployment's own 404":            {gateway: misbehaviour{handler: says(http.StatusNotFound, problem.ContentType, `{"type":"https://httpproblems.com/http-status/404","status":404,"trace":{"requestId":"r","buildId":"b"}}`)}, served: stepReply, says: "something else has replied"},
		"no JSON":                           {api: misbehaviour{handler: says(http.StatusOK, "application/json", "{")}, management: stepReply, says: "is not JSON"},
		"another account":                   {api: misbehaviour{handler: says(http.StatusOK, "application/json", `{"sub":"akey_1","account":"acme"}`)}, management: stepReply, says: "does not name the account"},
		"a 503":                             {api: misbehaviour{handler: says(http.StatusServiceUnavailable, problem.ContentType, `{}`)}, gateway: misbehaviour{handler: says(http.StatusBadGateway, problem.ContentType, `{}`)}, management: stepReply, served: stepReply, says: "the status 50"},
		"a 403 of API Gateway":              {gateway: misbehaviour{handler: says(http.StatusForbidden, "application/json", `{"message":"Forbidden"}`)}, served: stepReply, says: "the status 403"},
		"a connection that ends":            {api: misbehaviour{handler: raw(func(*http.Request) string { return "" })}, management: stepReply, says: "wait for the reply"},
		"a reply that ends":                 {api: misbehaviour{handler: raw(func(*http.Request) string { return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{" })}, management: stepReply, says: "read the reply"},
		"no key in Parameter Store":         {change: func(w *world) { w.readError = errors.New("ParameterNotFound") }, management: stepKey, says: "ParameterNotFound"},
		"something else in it":              {change: func(w *world) { w.kept = "placeholder" }, management: stepKey, says: "does not contain an account key"},
		"a key that was revoked":            {change: func(w *world) { w.kept = credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now)) }, management: stepReply, says: "the status 401"},
		"a server that repeats the request": {api: misbehaviour{handler: raw(func(r *http.Request) string { return r.Header.Get("Authorization") + "\r\n\r\n" })}, management: stepReply, says: "malformed"},
		"a server that repeats it in a type": {api: misbehaviour{handler: func(out http.ResponseWriter, r *http.Request) {
			says(http.StatusOK, r.Header.Get("Authorization"), "")(out, r)
		}}, management: stepReply, says: "the status 200"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.api, tt.gateway)
			if tt.change != nil {
				tt.change(w)
			}
			steps, lines := w.run(t)
			if len(steps) != 2 || steps[Management] != tt.management || steps[Gateway] != tt.served {
				t.Errorf("failed steps = %q, want %q of the management API and %q of the gateway\n%s", steps, tt.management, tt.served, w.log.String())
			}
			for _, l := range lines {
				if l.Step != "" && !strings.Contains(l.Error, tt.says) {
					t.Errorf("error of %s = %q, want %q", l.Check, l.Error, tt.says)
				}
			}
		})
	}
}

// TestSlowServerFailsItsCheckInTime, whichever of the steps is slow.
func TestSlowServerFailsItsCheckInTime(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, misbehaviour{handler: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}}, misbehaviour{})
	t.Cleanup(func() { close(ended) })
	// A listener that accepts nothing: the handshake waits.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	w.check.Gateway = "https://" + net.JoinHostPort(gatewayHost, port)
	w.check.within = time.Second // both have to fail, whatever the machine
	steps, _ := w.run(t)
	if steps[Gateway] != stepConnection || steps[Management] == "" {
		t.Errorf("failed steps = %q, want connection of the gateway, and one of the management API", steps)
	}
}

// TestKeyIsReadAnewAfterItWasRefused, and not before: Parameter Store decrypts it each time.
func TestKeyIsReadAnewAfterItWasRefused(t *testing.T) {
	w := newWorld(t, misbehaviour{}, misbehaviour{})
	for range 3 {
		if steps, _ := w.run(t); steps[Management] != "" {
			t.Fatalf("failed steps = %q, want none", steps)
		}
	}
	if w.reads != 1 {
		t.Errorf("the key was read %d times in three checks, want once", w.reads)
	}
	w.key = credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
	if steps, _ := w.run(t); steps[Management] != stepReply {
		t.Errorf("failed steps = %q, want the reply to the old key", steps)
	}
	w.kept = w.key
	if steps, _ := w.run(t); steps[Management] != "" || w.reads != 2 {
		t.Errorf("failed steps = %q after %d reads, want none after 2", steps, w.reads)
	}
}

// TestLinesAreMetrics: CloudWatch counts the checks, and the days of every certificate that was seen, also of one that was refused.
func TestLinesAreMetrics(t *testing.T) {
	w := newWorld(t, misbehaviour{certificate: func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-48 * time.Hour).Truncate(time.Second) }}, misbehaviour{})
	_, lines := w.run(t)
	var days []float64
	for _, l := range lines {
		of, name, dimension := l.AWS.CloudWatchMetrics, telemetry.ChecksPassed, "check"
		if l.CertificateDays != nil {
			days = append(days, *l.CertificateDays)
			name, dimension = telemetry.CertificateDays, "certificate"
			if l.Certificate != "dev/check" || l.Host == "" || l.Until.IsZero() {
				t.Errorf("line = %+v, want the certificate dev/check, its host and when it expires", l)
			}
		}
		if len(of) != 1 || of[0].Namespace != telemetry.Namespace || of[0].Dimensions[0][0] != dimension || of[0].Metrics[0].Name != name {
			t.Errorf("metrics of a line = %+v, want %s by %s", of, name, dimension)
		}
	}
	if len(lines) != 4 || len(days) != 2 || days[0] > -2 || days[1] < 29 {
		t.Errorf("%d lines, and %v days, want 4 lines, -2 days and 29", len(lines), days)
	}
}

// TestSettingsAreChecked: without them nothing starts, and the key is sent to no address without TLS.
func TestSettingsAreChecked(t *testing.T) {
	good := map[string]string{VarStage: "dev", VarAPI: "https://api.example.com", VarGateway: "https://" + Unserved + ".apis.example.com", VarParameter: "/gatewright/dev/check-key"}
	if s, err := Configured(func(name string) string { return good[name] }); err != nil || s.API != good[VarAPI] || s.Gateway != good[VarGateway] || s.Stage != "dev" || s.Parameter != good[VarParameter] {
		t.Errorf("Configured() = %+v, %v", s, err)
	}
	for name, value := range map[string]string{VarStage: "", VarAPI: "http://api.example.com", VarGateway: "apis.example.com", VarParameter: ""} {
		_, err := Configured(func(of string) string {
			if of == name {
				return value
			}
			return good[of]
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Configured() with %s=%q = %v, want an error that names it", name, value, err)
		}
	}
}

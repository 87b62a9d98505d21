package container

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// fileService returns a service whose certificate can be in files.
func fileService() service.Service {
	s := testService()
	s.CertificateFile, s.KeyFile = config.VarTLSCertificate, config.VarTLSKey
	return s
}

// TestRenewedCertificateFilesAreServed checks that a new certificate is served without a restart.
// If the new files are invalid, a warning is logged, and the previous certificate stays.
func TestRenewedCertificateFilesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
		ca := pkitest.CA(t, "CA", time.Now())
		write := func(certificate, keyText string) {
			for name, text := range map[string]string{file: certificate, key: keyText} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		first, second := ca.Server(t, time.Now()), ca.Server(t, time.Now())
		write(first.PEM(), first.KeyPEM(t))
		env := taskEnv(map[string]string{config.VarTLSCertificate: file, config.VarTLSKey: key})
		cert, err := newCertificate(fileService(), config.Config{}, env)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		c, _, err := cert.secure(t.Context(), newEcho(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		servedRaw := func() string {
			time.Sleep(time.Minute)
			served, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
			if err != nil {
				t.Fatal(err)
			}
			return string(served.Certificate[0])
		}
		if servedRaw() != string(first.Raw) {
			t.Error("the served certificate differs from the one in the files, want the same")
		}
		write(second.PEM(), "no key")
		if servedRaw() != string(first.Raw) || strings.Count(log.String(), "are invalid") != 1 {
			t.Errorf("served with an invalid pair: first certificate: %v, log %s, want true and one warning",
				servedRaw() == string(first.Raw), log.String())
		}
		write(second.PEM(), second.KeyPEM(t)+"\n")
		if servedRaw() != string(second.Raw) || !strings.Contains(log.String(), "another certificate is served") {
			t.Errorf("served after the renewal: second certificate: %v, log %s, want true and a log line",
				servedRaw() == string(second.Raw), log.String())
		}
	})
}

// TestCertificateSettingsMustBeUnambiguous checks that errors name the variables or the file.
func TestCertificateSettingsMustBeUnambiguous(t *testing.T) {
	cert := pkitest.CA(t, "CA", time.Now()).Server(t, time.Now())
	text := cert.PEM() + cert.KeyPEM(t)
	file := filepath.Join(t.TempDir(), "both")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text, file, key, want string
	}{
		"text":                {text: text},
		"files":               {file: file, key: file},
		"neither":             {want: "neither " + config.VarRelayCertificate + " nor " + config.VarTLSCertificate},
		"both":                {text: text, file: file, key: file, want: "set either"},
		"no key file":         {file: file, want: "go together"},
		"missing key file":    {file: file, key: file + "-not", want: file + "-not cannot be read"},
		"no certificate file": {key: file, want: "go together"},
	} {
		_, err := newCertificate(fileService(), config.Config{}, taskEnv(map[string]string{
			config.VarRelayCertificate: tt.text, config.VarTLSCertificate: tt.file, config.VarTLSKey: tt.key,
		}))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: newCertificate() error = %v, want %q (\"\" means none)", name, err, tt.want)
		}
	}
}

// securerProcess is a Securer that uses the service's certificate
// for localhost, and reports requests for other.test as misdirected.
type securerProcess struct{ *echo }

func (s securerProcess) Secure(openCertificate service.CertificateOpener) (*tls.Config, error) {
	source, err := openCertificate(func(name string) bool { return name == "localhost" }, "localhost")
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return source.Certificate(hello.Context(), hello.ServerName)
		},
	}, nil
}

func (securerProcess) Misdirected(r *http.Request) bool { return r.Host == "other.test" }

// TestSecurerReportsMisdirectedRequests checks that a Securer serves its
// own name, and that requests that it reports as misdirected get 421.
func TestSecurerReportsMisdirectedRequests(t *testing.T) {
	ca := pkitest.CA(t, "CA", time.Now())
	cert := ca.Server(t, time.Now())
	e := newEcho()
	close(e.drained)
	origin, stop := startProcess(t, e, securerProcess{e},
		taskEnv(map[string]string{
			config.VarRelayCertificate: cert.PEM() + cert.KeyPEM(t),
			"AWS_ENDPOINT_URL":         "http://127.0.0.1:9",
		}))
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: ca.Pool(), ServerName: "localhost",
		MinVersion: tls.VersionTLS13,
	}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	for host, want := range map[string]int{"localhost": http.StatusOK, "other.test": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.ProtoMajor != 2 {
			t.Errorf("response for %s = %s over %s, want %d over HTTP/2", host, resp.Status, resp.Proto, want)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("run() error = %v, want none", err)
	}
}

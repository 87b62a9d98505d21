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

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/service"
)

// filed is a service whose certificate may be in files.
func filed() service.Service {
	s := declared()
	s.CertificateFile, s.KeyFile = config.VarTLSCertificate, config.VarTLSKey
	return s
}

// TestRenewedFilesAreServedByThemselves: no process is started again for a certificate, and a pair that is
// none changes nothing but the log.
func TestRenewedFilesAreServedByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
		ca := pkitest.CA(t, "CA", time.Now())
		write := func(certificate, itsKey string) {
			for name, text := range map[string]string{file: certificate, key: itsKey} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		first, second := ca.Server(t, time.Now()), ca.Server(t, time.Now())
		write(first.PEM(), first.KeyPEM(t))
		env := task(map[string]string{config.VarTLSCertificate: file, config.VarTLSKey: key})
		own, err := certificateOf(filed(), config.Config{}, env)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		c, _, err := own.secure(t.Context(), newEcho(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		serves := func() string {
			time.Sleep(time.Minute)
			its, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
			if err != nil {
				t.Fatal(err)
			}
			return string(its.Certificate[0])
		}
		if serves() != string(first.Raw) {
			t.Error("it serves another certificate than the one in the files")
		}
		write(second.PEM(), "no key")
		if serves() != string(first.Raw) || strings.Count(log.String(), "are no good") != 1 {
			t.Errorf("with a pair that is none it serves another, and says %s", log.String())
		}
		write(second.PEM(), second.KeyPEM(t)+"\n")
		if serves() != string(second.Raw) || !strings.Contains(log.String(), "another certificate is served") {
			t.Errorf("renewed it serves the old one, and says %s", log.String())
		}
	})
}

// TestCertificateIsNamedOnce, and what is wrong with it is said by its variables and files.
func TestCertificateIsNamedOnce(t *testing.T) {
	its := pkitest.CA(t, "CA", time.Now()).Server(t, time.Now())
	text := its.PEM() + its.KeyPEM(t)
	file := filepath.Join(t.TempDir(), "both")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text, file, key, want string
	}{
		"text":        {text: text},
		"files":       {file: file, key: file},
		"neither":     {want: "neither " + config.VarRelayCertificate + " nor " + config.VarTLSCertificate},
		"both":        {text: text, file: file, key: file, want: "set either"},
		"one file":    {file: file, want: "go together"},
		"no file":     {file: file, key: file + "-not", want: file + "-not cannot be read"},
		"no key file": {key: file, want: "go together"},
	} {
		_, err := certificateOf(filed(), config.Config{}, task(map[string]string{
			config.VarRelayCertificate: tt.text, config.VarTLSCertificate: tt.file, config.VarTLSKey: tt.key,
		}))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// securing answers handshakes itself, for the names that its certificate is for, and has another host's requests come
// again.
type securing struct{ *echo }

func (s securing) Secure(own service.OwnCertificate) (*tls.Config, error) {
	source, err := own(func(name string) bool { return name == "localhost" }, "localhost")
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return source.Certificate(hello.Context(), hello.ServerName)
	}}, nil
}

func (securing) Misdirected(r *http.Request) bool { return r.Host == "other.test" }

// TestProcessSaysWhatIsMisdirected, and has its certificate for its own names.
func TestProcessSaysWhatIsMisdirected(t *testing.T) {
	ca := pkitest.CA(t, "CA", time.Now())
	its := ca.Server(t, time.Now())
	e := newEcho()
	close(e.drained)
	origin, stop := startedAs(t, e, securing{e}, task(map[string]string{config.VarRelayCertificate: its.PEM() + its.KeyPEM(t), "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	for host, want := range map[string]int{"localhost": http.StatusOK, "other.test": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		out, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = out.Body.Close()
		if out.StatusCode != want || out.ProtoMajor != 2 {
			t.Errorf("%s is answered %s by %s", host, out.Status, out.Proto)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

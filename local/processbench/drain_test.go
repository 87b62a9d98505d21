package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/shared/config"
)

// The manners of a gateway that this program plays for its tests, which their variable names; varTold names the file with a line for each SIGTERM.
const (
	varManners = "PROCESSBENCH_TEST_MANNERS"
	varTold    = "PROCESSBENCH_TEST_TOLD"

	careful  = "careful"  // announces its end
	careless = "careless" // ends at once
	broken   = "broken"   // ends with an error
)

func TestMain(m *testing.M) {
	if manners := os.Getenv(varManners); manners != "" {
		os.Exit(play(manners))
	}
	os.Exit(m.Run())
}

// play is a gateway's process: of what a gateway is asked here it answers all, and has a balancer's health.
func play(manners string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pem := []byte(os.Getenv(config.VarCertificate))
	own, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var leaving atomic.Bool
	s := &http.Server{Addr: os.Getenv(config.VarTLSAddr), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		wait, _ := time.ParseDuration(filepath.Base(r.URL.Path) + "ms")
		time.Sleep(max(wait, 5*time.Millisecond))
		if leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, body)
	})
	admin := &http.Server{Addr: os.Getenv(config.VarAdminAddr), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if leaving.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	failed := make(chan error, 2)
	go func() { failed <- s.ListenAndServeTLS("", "") }()
	go func() { failed <- admin.ListenAndServe() }()
	fmt.Println(`{"msg":"operators ask"}`)
	select {
	case err := <-failed:
		fmt.Println(err)
		return 1
	case <-ctx.Done():
	}
	told, err := os.OpenFile(os.Getenv(varTold), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	_, _ = told.WriteString("told\n")
	_ = told.Close()
	switch manners {
	case careless:
		return 0
	case broken:
		return 3
	}
	leaving.Store(true)
	announce, _ := time.ParseDuration(os.Getenv(config.VarAnnounce))
	time.Sleep(announce)
	_ = s.Shutdown(context.Background())
	return 0
}

// played is an installation whose gateways are this program, and the file in which they note what they are told.
func played(t *testing.T, manners string) (in *installation, told func() int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := certify()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "told")
	in = &installation{
		site: &site{host: "a." + domain, key: "a-key"}, certificate: c, binary: self, announces: time.Second,
		env: append(os.Environ(), varManners+"="+manners, varTold+"="+file, config.VarCertificate+"="+c.chain+c.private),
	}
	return in, func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "told")
	}
}

// TestDrainCountsWhatItSays: each SIGTERM has come to a gateway, and those of the end beside.
func TestDrainCountsWhatItSays(t *testing.T) {
	for name, c := range map[string]struct {
		drain func(ctx context.Context, in *installation, table *bars.Table) error
		ends  int
		row   string
		kept  bool // a gateway of net/http's alone loses requests by HTTP/2
	}{
		"restarts by HTTP/1.1": {func(ctx context.Context, in *installation, table *bars.Table) error {
			return in.restarts(ctx, http1, 3, 100, table)
		}, 3, "passes connections on, by HTTP/1.1, announced for 1s", true},
		"restarts by HTTP/2": {func(ctx context.Context, in *installation, table *bars.Table) error {
			return in.restarts(ctx, http2, 1, 100, table)
		}, 1, "passes connections on, by HTTP/2, announced for 1s", false},
		"replacements": {func(ctx context.Context, in *installation, table *bars.Table) error {
			return in.replacements(ctx, http1, 1, 100, table)
		}, 2, "two processes replaced 1 times, behind a reverse proxy by HTTP/1.1, announced for 1s", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, told := played(t, careful)
			var table bars.Table
			if err := c.drain(t.Context(), in, &table); err != nil {
				t.Fatal(err)
			}
			if n := told(); n != c.ends+2 || in.ended != n {
				t.Errorf("%d gateways were told, and %d are counted, of %d and the last 2", n, in.ended, c.ends)
			}
			text := table.String()
			if err := table.Err(); !strings.Contains(text, fmt.Sprintf("requests lost over %d SIGTERMs", c.ends)) || !strings.Contains(text, c.row) || c.kept && err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// TestWhatIsLostIsBeyondItsBar, where gateways end at once.
func TestWhatIsLostIsBeyondItsBar(t *testing.T) {
	t.Parallel()
	in, _ := played(t, careless)
	var table bars.Table
	if err := in.restarts(t.Context(), http1, 2, 0, &table); err != nil {
		t.Fatal(err)
	}
	if err := table.Err(); err == nil || !strings.Contains(err.Error(), "the first by") {
		t.Errorf("it is within its bar: %v\n%s", err, &table)
	}
}

// TestGatewayThatEndsBadlyFailsTheRun: what it has lost nobody knows.
func TestGatewayThatEndsBadlyFailsTheRun(t *testing.T) {
	t.Parallel()
	in, _ := played(t, broken)
	var table bars.Table
	if err := in.restarts(t.Context(), http1, 1, 0, &table); err == nil || !strings.Contains(err.Error(), "ends badly") {
		t.Errorf("it is none: %v\n%s", err, &table)
	}
	if in.ended != 0 {
		t.Errorf("%d are counted that have ended", in.ended)
	}
}

// TestEachLostRequestIsCounted, however it is lost, and no other.
func TestEachLostRequestIsCounted(t *testing.T) {
	for name, lose := range map[string]func(http.ResponseWriter){
		"no answer":      func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"half of one":    func(w http.ResponseWriter) { w.Header().Set("Content-Length", "6"); _, _ = io.WriteString(w, "ser") },
		"another status": func(w http.ResponseWriter) { http.Error(w, body, http.StatusBadGateway) },
		"another answer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, body+"?") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			var asked, lost atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				switch n := asked.Add(1); {
				case n%7 == 0:
					lost.Add(1)
					lose(w)
					return
				case n >= 300:
					end()
				}
				_, _ = io.WriteString(w, body)
			}))
			defer s.Close()
			s.Config.ErrorLog = nil
			var l askers
			l.run(ctx, s.URL, "a-key", func() http.RoundTripper { return &http.Transport{} })
			if l.lost.Load() != lost.Load() || l.asked.Load() != asked.Load() || l.first == nil {
				t.Errorf("%d of %d are lost, and %d of %d are counted, the first for %v", lost.Load(), asked.Load(), l.lost.Load(), l.asked.Load(), l.first)
			}
		})
	}
}

// TestAnswerByAnotherProtocolIsNone: a row tells which it is.
func TestAnswerByAnotherProtocolIsNone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer s.Close()
	for speaks, want := range map[protocol]bool{http1: true, http2: false} {
		c := &http.Client{Transport: speaks.by(&http.Transport{})}
		if err := ask(t.Context(), c, s.URL+"/wait/0", "a-key"); (err == nil) != want {
			t.Errorf("%s: %v", speaks, err)
		}
	}
}

// TestFigureBeyondItsBarFailsTheRun, and what is not measured.
func TestFigureBeyondItsBarFailsTheRun(t *testing.T) {
	errBroken := errors.New("broken")
	all := []part{
		{"kept", func(_ context.Context, _ string, _ options, table *bars.Table) error {
			table.Add("a", "1", "1", true)
			return nil
		}},
		{"beyond", func(_ context.Context, _ string, _ options, table *bars.Table) error {
			table.Add("b", "1", "2", false)
			return nil
		}},
		{"broken", func(context.Context, string, options, *bars.Table) error { return errBroken }},
	}
	for only, want := range map[string]string{"kept": "", "kept,beyond": "b: 2, and the bar is 1", "broken": "broken: broken", "kept,other": `"other" is nothing that is measured`} {
		err := run(t.Context(), options{only: only}, all)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", only, err, want)
		}
	}
}

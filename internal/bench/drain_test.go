package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/shared/core/config"
)

// If varBehavior is set, the binary of the tests acts as a gateway with this behavior. varSignalFile is the path of a
// file. Each SIGTERM adds a line to the file.
const (
	varBehavior   = "BENCH_TEST_BEHAVIOR"
	varSignalFile = "BENCH_TEST_SIGNAL_FILE"

	graceful = "graceful" // announces that it shuts down
	abrupt   = "abrupt"   // ends at once
	broken   = "broken"   // ends with an error
)

// runFakeGateway runs a gateway that responds to all requests, and that says at its address for operators whether it is
// ready. It returns the exit code of the process.
func runFakeGateway(behavior string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pem := []byte(os.Getenv(config.VarCertificate))
	certificate, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var draining atomic.Bool
	s := &http.Server{
		Addr: os.Getenv(config.VarTLSAddr), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		wait, _ := time.ParseDuration(strings.TrimLeft(filepath.Base(r.URL.Path), "0") + "ms") // 0 for none
		time.Sleep(max(wait, 5*time.Millisecond))
		if draining.Load() {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, fixture.SmallBody)
	})
	admin := &http.Server{
		Addr: os.Getenv(config.VarAdminAddr), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if draining.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}),
	}
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
	signals, err := os.OpenFile(os.Getenv(varSignalFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	_, _ = signals.WriteString("SIGTERM\n")
	_ = signals.Close()
	switch behavior {
	case abrupt:
		return 0
	case broken:
		return 3
	}
	draining.Store(true)
	announce, _ := time.ParseDuration(os.Getenv(config.VarAnnounce))
	time.Sleep(announce)
	_ = s.Shutdown(context.Background())
	return 0
}

// install returns an installation whose gateways are this program, and a function that returns how many gateways have received SIGTERM.
func install(t *testing.T, behavior string) (inst *fixture.Installation, signalCount func() int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := fixture.NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "signals")
	inst = &fixture.Installation{
		Site: fixture.Site{Host: "a." + fixture.Domain, Key: "a-key"}, Certificate: c, Binary: self,
		Announcement: time.Second,
		Env: append(os.Environ(), varBehavior+"="+behavior, varSignalFile+"="+file,
			config.VarCertificate+"="+c.Chain+c.PrivateKey),
	}
	return inst, func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "SIGTERM")
	}
}

// TestDrainCountsStoppedGateways checks that the row has the number of SIGTERMs that gateways have received, without
// the two SIGTERMs at the end of the measurement.
func TestDrainCountsStoppedGateways(t *testing.T) {
	for _, test := range []struct {
		name            string
		protocol, count int
		replace         bool
		stopped         int
		row             string
		within          bool // whether no request is lost: the fake gateway uses net/http, which loses requests with HTTP/2
	}{
		{"restarts by HTTP/1.1", 1, 3, false, 3, "forwards connections, by HTTP/1.1, announced for 1s", true},
		{"restarts by HTTP/2", 2, 1, false, 1, "forwards connections, by HTTP/2, announced for 1s", false},
		{
			"replacements", 1, 1, true, 2,
			"two processes replaced 1 times, behind a reverse proxy, by HTTP/1.1, announced for 1s", true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inst, signalCount := install(t, graceful)
			m := &measurement{}
			if err := drain(t.Context(), m, inst, test.protocol, test.replace, test.count, 100); err != nil {
				t.Fatal(err)
			}
			if got := signalCount(); got != test.stopped+2 || inst.Ended() != got {
				t.Errorf("SIGTERMs = %d, Ended() = %d, want %d of both", got, inst.Ended(), test.stopped+2)
			}
			text := m.String()
			if !strings.Contains(text, fmt.Sprintf("requests lost over %d SIGTERMs", test.stopped)) ||
				!strings.Contains(text, test.row) {
				t.Errorf("row = %s, want one with %d SIGTERMs and %q", text, test.stopped, test.row)
			}
			if err := m.Err(); test.within && err != nil {
				t.Errorf("drain() of a graceful gateway: Err() = %v, want none", err)
			}
		})
	}
}

func TestLostRequestsExceedTheLimit(t *testing.T) {
	t.Parallel()
	inst, _ := install(t, abrupt)
	m := &measurement{}
	if err := drain(t.Context(), m, inst, 1, false, 2, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err == nil || !strings.Contains(err.Error(), "the first error") {
		t.Errorf("drain() of gateways that stop abruptly: Err() = %v, want \"the first error\"\n%s", err, m)
	}
}

// TestGatewayExitCodeFailsTheRun checks that the run fails if a gateway ends with an error, because nobody knows how
// many requests such a gateway has lost.
func TestGatewayExitCodeFailsTheRun(t *testing.T) {
	t.Parallel()
	inst, _ := install(t, broken)
	m := &measurement{}
	err := drain(t.Context(), m, inst, 1, false, 1, 0)
	if err == nil || !strings.Contains(err.Error(), "ended with an error") {
		t.Errorf("drain() of gateways that end with an error = %v, want \"ended with an error\" in it\n%s", err, m)
	}
	if inst.Ended() != 0 {
		t.Errorf("Ended() = %d, want 0", inst.Ended())
	}
}

// TestOnlyTheUpstreamsResponseCounts checks that a response with another text of the same length counts as a lost
// request.
func TestOnlyTheUpstreamsResponseCounts(t *testing.T) {
	l := drainLoad(&fixture.Site{Host: "a." + fixture.Domain}, 1)
	if err := l.Check([]byte(fixture.SmallBody)); err != nil {
		t.Errorf("Check(the upstream's response) = %v, want nil", err)
	}
	if l.Check([]byte(strings.Replace(fixture.SmallBody, "x", "y", 1))) == nil {
		t.Error("Check(another response) = nil, want an error")
	}
}

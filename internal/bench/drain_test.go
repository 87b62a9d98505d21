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

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/shared/config"
)

// The gateways that the tests' binary plays, which varManners chooses; varTold names a file with a line for each SIGTERM.
const (
	varManners = "BENCH_TEST_MANNERS"
	varTold    = "BENCH_TEST_TOLD"

	careful  = "careful"  // announces its end
	careless = "careless" // ends at once
	broken   = "broken"   // ends with an error
)

// playGateway is the process of a gateway: it answers all requests, and says whether it is ready.
func playGateway(manners string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pem := []byte(os.Getenv(config.VarCertificate))
	own, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var ends atomic.Bool
	s := &http.Server{Addr: os.Getenv(config.VarTLSAddr), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		wait, _ := time.ParseDuration(strings.TrimLeft(filepath.Base(r.URL.Path), "0") + "ms") // 0 for none
		time.Sleep(max(wait, 5*time.Millisecond))
		if ends.Load() {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, world.Answer)
	})
	admin := &http.Server{Addr: os.Getenv(config.VarAdminAddr), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ends.Load() {
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
	ends.Store(true)
	announce, _ := time.ParseDuration(os.Getenv(config.VarAnnounce))
	time.Sleep(announce)
	_ = s.Shutdown(context.Background())
	return 0
}

// install returns an installation whose gateways are this program, and a function that returns how many of them got SIGTERM.
func install(t *testing.T, manners string) (in *world.Installation, told func() int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := world.NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "told")
	in = &world.Installation{
		Site: world.Site{Host: "a." + world.Domain, Key: "a-key"}, Certificate: c, Binary: self, Announces: time.Second,
		Env: append(os.Environ(), varManners+"="+manners, varTold+"="+file, config.VarCertificate+"="+c.Chain+c.Private),
	}
	return in, func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "told")
	}
}

// TestDrainCountsTheEndsOfGateways: as many SIGTERMs have come to gateways as the row says, and two at the end.
func TestDrainCountsTheEndsOfGateways(t *testing.T) {
	for _, test := range []struct {
		name            string
		protocol, count int
		replace         bool
		ends            int
		row             string
		within          bool // a gateway of net/http alone loses requests by HTTP/2
	}{
		{"restarts by HTTP/1.1", 1, 3, false, 3, "passes connections on, by HTTP/1.1, announced for 1s", true},
		{"restarts by HTTP/2", 2, 1, false, 1, "passes connections on, by HTTP/2, announced for 1s", false},
		{"replacements", 1, 1, true, 2, "two processes replaced 1 times, behind a reverse proxy, by HTTP/1.1, announced for 1s", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in, told := install(t, careful)
			m := &measurement{}
			if err := drain(t.Context(), m, in, test.protocol, test.replace, test.count, 100); err != nil {
				t.Fatal(err)
			}
			if got := told(); got != test.ends+2 || in.Ended() != got {
				t.Errorf("%d gateways got SIGTERM, and %d have ended, want %d", got, in.Ended(), test.ends+2)
			}
			text := m.String()
			if !strings.Contains(text, fmt.Sprintf("requests lost over %d SIGTERMs", test.ends)) || !strings.Contains(text, test.row) {
				t.Errorf("the row is %s, want one of %d SIGTERMs, %s", text, test.ends, test.row)
			}
			if err := m.Err(); test.within && err != nil {
				t.Errorf("a careful gateway is over the limit: %v", err)
			}
		})
	}
}

func TestLostRequestsAreOverTheLimit(t *testing.T) {
	t.Parallel()
	in, _ := install(t, careless)
	m := &measurement{}
	if err := drain(t.Context(), m, in, 1, false, 2, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Err(); err == nil || !strings.Contains(err.Error(), "the first by") {
		t.Errorf("gateways that end at once are within the limit: %v\n%s", err, m)
	}
}

// TestGatewayThatEndsBadlyFailsTheRun: nobody knows what it has lost.
func TestGatewayThatEndsBadlyFailsTheRun(t *testing.T) {
	t.Parallel()
	in, _ := install(t, broken)
	m := &measurement{}
	if err := drain(t.Context(), m, in, 1, false, 1, 0); err == nil || !strings.Contains(err.Error(), "ends badly") {
		t.Errorf("drain() of gateways that end with an error = %v, want it to say so\n%s", err, m)
	}
	if in.Ended() != 0 {
		t.Errorf("%d gateways are counted as ended, want 0", in.Ended())
	}
}

// TestOnlyTheUpstreamsAnswerIsAnAnswer: another text of the same length is a request that was lost.
func TestOnlyTheUpstreamsAnswerIsAnAnswer(t *testing.T) {
	l := requestsWhile(&world.Site{Host: "a." + world.Domain}, 1)
	if err := l.Check([]byte(world.Answer)); err != nil {
		t.Errorf("Check(the upstream's answer) = %v, want nil", err)
	}
	if l.Check([]byte(strings.Replace(world.Answer, "x", "y", 1))) == nil {
		t.Error("Check(another answer) = nil, want an error")
	}
}

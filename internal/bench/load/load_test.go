package load_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/bench/load"
)

// argCPUTime is the argument of a child that uses some processor time for each request.
const argCPUTime = "-cpu-time="

func TestMain(m *testing.M) {
	cpuTime, child := strings.CutPrefix(os.Args[len(os.Args)-1], argCPUTime)
	if !child {
		os.Exit(m.Run())
	}
	cpuPerRequest, err := time.ParseDuration(cpuTime)
	if err == nil {
		err = load.Serve(context.Background(),
			&http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				for used, _ := load.PID(os.Getpid()).CPU(); ; {
					if now, err := load.PID(os.Getpid()).CPU(); err != nil || now-used > cpuPerRequest {
						return
					}
				}
			})})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestSlowerServerUsesMoreCPU(t *testing.T) {
	var subjects []load.Subject
	for _, each := range []string{"100us", "2ms"} {
		c, err := load.StartChild(t.Context(), argCPUTime+each)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		subjects = append(subjects, load.Subject{Name: each, Process: c, Load: load.Load{
			Address: c.Address, Request: load.Request("GET", "/", "bench.test", "", ""), Requests: 100, Connections: 2,
		}})
	}
	all, err := load.Compare(t.Context(), 3, subjects...)
	if err != nil {
		t.Fatal(err)
	}
	fast, slow := all[0], all[1]
	if got := fast.Median(load.CPU); got < 100 {
		t.Errorf("Median(CPU) of the fast server = %.0f µs, want at least 100, which it uses", got)
	}
	if got := slow.Difference(fast, load.CPU); got < 1000 {
		t.Errorf("Difference(CPU) of the slow server = %.0f µs, want about 1900", got)
	}
	if got := slow.Ratio(fast, load.Rate); got >= 1 {
		t.Errorf("Ratio(Rate) of the slow server = %.2f, want less than 1", got)
	}
	if got := slow.Ratio(fast, load.P50); got <= 1 {
		t.Errorf("Ratio(P50) of the slow server = %.2f, want more than 1", got)
	}
}

// idleProcess is a process that does nothing.
type idleProcess struct{}

func (idleProcess) CPU() (time.Duration, error) { return time.Second, nil }

// TestEmptyMeasurementIsAnError checks that a comparison without requests is an error. Its figures would be 0 or NaN,
// which exceed no limit.
func TestEmptyMeasurementIsAnError(t *testing.T) {
	l := loadOf(serve(t, false, answer))
	none := l
	none.Requests = 0
	if _, err := none.Send(t.Context()); err == nil || !strings.Contains(err.Error(), "no request was sent") {
		t.Errorf("Send() without a request: error = %v, want \"no request was sent\"", err)
	}
	for _, test := range []struct {
		name    string
		rounds  int
		subject load.Subject
		want    string
	}{
		{"no round", 0, load.Subject{Load: l}, "0 rounds"},
		{"no request", 1, load.Subject{Load: none}, "no request was sent"},
		{"an idle process", 1, load.Subject{Load: l, Process: idleProcess{}}, "no processor time"},
		{"a busy process", 1, load.Subject{Load: l, Process: load.PID(os.Getpid())}, ""},
	} {
		_, err := load.Compare(t.Context(), test.rounds, test.subject)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: Compare() error = %v, want one with %q, or none if this is empty", test.name, err, test.want)
		}
	}
}

// TestRatiosCompareTheSameRound checks that Ratio is the median of the ratios. On a machine that becomes slower, it is
// more exact than the ratio of the medians.
func TestRatiosCompareTheSameRound(t *testing.T) {
	first := load.Rounds{{CPU: 10}, {CPU: 20}, {CPU: 90}}
	other := load.Rounds{{CPU: 40}, {CPU: 40}, {CPU: 180}}
	if got := other.Ratio(first, load.CPU); got != 2 {
		t.Errorf("Ratio() = %v, want 2", got)
	}
	if got := other.Difference(first, load.CPU); got != 30 {
		t.Errorf("Difference() = %v, want 30", got)
	}
	if got := first.Median(load.CPU); got != 20 {
		t.Errorf("Median() = %v, want 20", got)
	}
}

func serve(t *testing.T, http2 bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "served")
}

func loadOf(s *httptest.Server) load.Load {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return load.Load{
		Address: s.Listener.Addr().String(), TLS: &tls.Config{
			RootCAs: roots, ServerName: "example.com",
			MinVersion: tls.VersionTLS12,
		},
		Request: load.Request("POST", "/", "example.com", "key", "something"), Requests: 60, Connections: 3, Length: 6,
	}
}

// withProtocol returns a load that net/http's client sends with HTTP/1.1 or HTTP/2.
func withProtocol(l load.Load, protocol int) load.Load {
	config := l.TLS.Clone()
	l.Protocol = protocol
	l.Transport = func(int) http.RoundTripper {
		return &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: protocol == 2}
	}
	return l
}

// TestOnlyExpectedResponsesAreMeasured checks that incomplete responses, and responses with another protocol, status,
// length or text, are failures.
func TestOnlyExpectedResponsesAreMeasured(t *testing.T) {
	for _, test := range []struct {
		name   string
		http2  bool
		answer http.HandlerFunc
		fails  [3]bool // with this package's client, and with net/http's client over HTTP/1.1 and HTTP/2
	}{
		{"both protocols", true, answer, [3]bool{}},
		{"HTTP/1.1 only", false, answer, [3]bool{false, false, true}},
		{"a response of another length", true, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "served?")
		}, [3]bool{true, true, true}},
		{"a response with another status", true, http.NotFound, [3]bool{true, true, true}},
		{"no response", true, func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, [3]bool{true, true, true}},
		{"half a response", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "6")
			_, _ = io.WriteString(w, "ser")
		}, [3]bool{true, true, true}},
	} {
		s := serve(t, test.http2, test.answer)
		plain := loadOf(s)
		for i, l := range []load.Load{plain, withProtocol(plain, 1), withProtocol(plain, 2)} {
			result, err := l.Send(t.Context())
			if (err != nil) != test.fails[i] {
				t.Errorf("%s, client %d: Send() error = %v, want an error = %v", test.name, i, err, test.fails[i])
			}
			if err == nil && result.Requests != 60 {
				t.Errorf("%s, client %d: %d requests were sent, want 60", test.name, i, result.Requests)
			}
		}
	}
}

func TestCountFailuresCountsEachFailure(t *testing.T) {
	var requests atomic.Int64
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%7 == 0 {
			http.Error(w, "served", http.StatusBadGateway)
			return
		}
		answer(w, r)
	})
	l := withProtocol(loadOf(s), 1)
	l.CountFailures, l.Requests = true, 70
	result, err := l.Send(t.Context())
	if err != nil || result.Failed != 10 || result.Requests != 70 {
		t.Errorf("Send() = %d of %d failed, %v, want 10 of 70", result.Failed, result.Requests, err)
	}
	if result.FirstError == nil || !strings.Contains(result.FirstError.Error(), "status 502, want 200") {
		t.Errorf("FirstError = %v, want \"status 502, want 200\" in it", result.FirstError)
	}
}

// TestNoRequestIsSentTwice checks that Numbers makes each request different, and that the server receives each request
// once.
func TestNoRequestIsSentTwice(t *testing.T) {
	var mu sync.Mutex
	received := map[string]int{}
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received[r.URL.Path]++
		answer(w, r)
	})
	l := loadOf(s)
	l.Request = load.Request("GET", "/"+load.Placeholder, "example.com", "", "")
	l.Change = load.Numbers(l.Request)
	if _, err := l.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(received) != 60 {
		t.Errorf("%d different requests were sent, want 60", len(received))
	}
	for path, n := range received {
		if n != 1 {
			t.Errorf("the request for %s was received %d times, want 1", path, n)
		}
	}
}

// TestLoadStopsAtItsDurationOrContext checks that Send stops after Duration, and that it returns the cause if its
// context ends. It also checks that Once does not accept an unknown certificate.
func TestLoadStopsAtItsDurationOrContext(t *testing.T) {
	l := loadOf(serve(t, false, answer))
	l.Requests, l.Duration, l.Interval = 0, 50*time.Millisecond, 10*time.Millisecond
	result, err := l.Send(t.Context())
	if err != nil || result.Requests == 0 || result.Requests > 3*6 {
		t.Errorf("Send() for 50 ms, one request in 10 ms on each of 3 connections: %d requests, %v, want 18 at most",
			result.Requests, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errStopped := errors.New("stopped")
	l.Duration, l.Continue = 0, func() bool { cancel(errStopped); return true }
	if _, err := l.Send(ctx); !errors.Is(err, errStopped) {
		t.Errorf("Send() with a context that ends = %v, want its cause", err)
	}
	l.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	l.Continue = func() bool { return true }
	if _, err := l.Once(t.Context()); err == nil {
		t.Error("Once() to a server with an unknown certificate succeeds, want an error")
	}
}

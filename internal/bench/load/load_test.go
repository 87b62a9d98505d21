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

// burns is the argument of a child that takes some processor time for each request.
const burns = "-burns="

func TestMain(m *testing.M) {
	took, child := strings.CutPrefix(os.Args[len(os.Args)-1], burns)
	if !child {
		os.Exit(m.Run())
	}
	each, err := time.ParseDuration(took)
	if err == nil {
		err = load.Serve(context.Background(), &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			for used, _ := load.PID(os.Getpid()).CPU(); ; {
				if now, err := load.PID(os.Getpid()).CPU(); err != nil || now-used > each {
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

func TestProcessorTimeOfASlowerServerIsLarger(t *testing.T) {
	var subjects []load.Subject
	for _, each := range []string{"100us", "2ms"} {
		c, err := load.StartChild(t.Context(), burns+each)
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
		t.Errorf("the fast server took %.0f µs a request, want at least the 100 that it burns", got)
	}
	if got := slow.More(fast, load.CPU); got < 1000 {
		t.Errorf("the slow server took %.0f µs more, want about 1900", got)
	}
	if got := slow.Times(fast, load.Rate); got >= 1 {
		t.Errorf("the slow server answered %.2f times as many requests a second, want fewer", got)
	}
	if got := slow.Times(fast, load.P50); got <= 1 {
		t.Errorf("half of the slow server's answers took %.2f times as long, want longer", got)
	}
}

// still is a process that does nothing.
type still struct{}

func (still) CPU() (time.Duration, error) { return time.Second, nil }

// TestNothingIsNotMeasured: the figures of no request are 0 or no number, and a limit is not exceeded by either.
func TestNothingIsNotMeasured(t *testing.T) {
	l := of(serve(t, false, answer))
	none := l
	none.Requests = 0
	if _, err := none.Send(t.Context()); err == nil || !strings.Contains(err.Error(), "no request was sent") {
		t.Errorf("Send() without a request = %v, want an error that says so", err)
	}
	for _, test := range []struct {
		name    string
		rounds  int
		subject load.Subject
		want    string
	}{
		{"no round", 0, load.Subject{Load: l}, "0 rounds"},
		{"no request", 1, load.Subject{Load: none}, "no request was sent"},
		{"another process", 1, load.Subject{Load: l, Process: still{}}, "no processor time"},
		{"a server", 1, load.Subject{Load: l, Process: load.PID(os.Getpid())}, ""},
	} {
		_, err := load.Compare(t.Context(), test.rounds, test.subject)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: Compare() = %v, want %q", test.name, err, test.want)
		}
	}
}

// TestRoundsAreComparedWithThoseOfTheSameRound: on a machine that gets slower, medians of two subjects say less than the median
// of their ratios.
func TestRoundsAreComparedWithThoseOfTheSameRound(t *testing.T) {
	one := load.Rounds{{CPU: 10}, {CPU: 20}, {CPU: 90}}
	other := load.Rounds{{CPU: 40}, {CPU: 40}, {CPU: 180}}
	if got := other.Times(one, load.CPU); got != 2 {
		t.Errorf("Times() = %v, want 2", got)
	}
	if got := other.More(one, load.CPU); got != 30 {
		t.Errorf("More() = %v, want 30", got)
	}
	if got := one.Median(load.CPU); got != 20 {
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

func of(s *httptest.Server) load.Load {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return load.Load{
		Address: s.Listener.Addr().String(), TLS: &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12},
		Request: load.Request("POST", "/", "example.com", "key", "something"), Requests: 60, Connections: 3, Length: 6,
	}
}

// by has a load sent by net/http's client.
func by(l load.Load, protocol int) load.Load {
	config := l.TLS.Clone()
	l.Protocol = protocol
	l.Transport = func(int) http.RoundTripper {
		return &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: protocol == 2}
	}
	return l
}

// TestOnlyTheExpectedAnswersAreMeasured: another protocol, status, length or text is a failure, and so is half an answer.
func TestOnlyTheExpectedAnswersAreMeasured(t *testing.T) {
	for _, test := range []struct {
		name   string
		http2  bool
		answer http.HandlerFunc
		fails  [3]bool // this package's client, net/http's by HTTP/1.1, and by HTTP/2
	}{
		{"both protocols", true, answer, [3]bool{}},
		{"HTTP/1.1 only", false, answer, [3]bool{false, false, true}},
		{"another length", true, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served?") }, [3]bool{true, true, true}},
		{"another status", true, http.NotFound, [3]bool{true, true, true}},
		{"no answer", true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, [3]bool{true, true, true}},
		{"half an answer", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "6")
			_, _ = io.WriteString(w, "ser")
		}, [3]bool{true, true, true}},
	} {
		s := serve(t, test.http2, test.answer)
		plain := of(s)
		for i, l := range []load.Load{plain, by(plain, 1), by(plain, 2)} {
			result, err := l.Send(t.Context())
			if (err != nil) != test.fails[i] {
				t.Errorf("%s, client %d: Send() = %v, want an error: %v", test.name, i, err, test.fails[i])
			}
			if err == nil && result.Requests != 60 {
				t.Errorf("%s, client %d: %d requests were sent, want 60", test.name, i, result.Requests)
			}
		}
	}
}

func TestEachFailureIsCountedWhereTheyAre(t *testing.T) {
	var asked atomic.Int64
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%7 == 0 {
			http.Error(w, "served", http.StatusBadGateway)
			return
		}
		answer(w, r)
	})
	l := by(of(s), 1)
	l.CountFailures, l.Requests = true, 70
	result, err := l.Send(t.Context())
	if err != nil || result.Failed != 10 || result.Requests != 70 {
		t.Errorf("Send() = %d of %d failed, %v, want 10 of 70", result.Failed, result.Requests, err)
	}
	if result.First == nil || !strings.Contains(result.First.Error(), "status 502, want 200") {
		t.Errorf("the first failure is %v, want one that names the status", result.First)
	}
}

func TestNoRequestIsSentTwice(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
		answer(w, r)
	})
	l := of(s)
	l.Request = load.Request("GET", "/"+load.Placeholder, "example.com", "", "")
	l.Change = load.Numbers(l.Request)
	if _, err := l.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 60 {
		t.Errorf("%d different requests were sent, want 60", len(seen))
	}
}

func TestALoadEndsWithItsTimeOrItsContext(t *testing.T) {
	l := of(serve(t, false, answer))
	l.Requests, l.For, l.Every = 0, 50*time.Millisecond, 10*time.Millisecond
	result, err := l.Send(t.Context())
	if err != nil || result.Requests == 0 || result.Requests > 3*6 {
		t.Errorf("Send() for 50 ms, one request in 10 ms on each of 3 connections: %d requests, %v, want 18 at most", result.Requests, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errStopped := errors.New("stopped")
	l.For, l.More = 0, func() bool { cancel(errStopped); return true }
	if _, err := l.Send(ctx); !errors.Is(err, errStopped) {
		t.Errorf("Send() with a context that ends = %v, want its cause", err)
	}
	l.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	l.More = func() bool { return true }
	if _, err := l.Once(t.Context()); err == nil {
		t.Error("Once() to a server with an unknown certificate succeeds, want an error")
	}
}

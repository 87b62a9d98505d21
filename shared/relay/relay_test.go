package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// ways are all who ask, in a world where one relay has the tunnel and another has not.
func ways(w *world) (has, other *process, by map[string]asks) {
	has, other = w.relay("a:443"), w.relay("b:443")
	w.agent("a:443", 2)
	return has, other, map[string]asks{
		"the relay that has it": has, "another relay": other,
		"a client of the relay that has it": w.client("a:443"), "a client of another relay": w.client("b:443"),
		"a client by HTTP/1.1": w.plain(has),
	}
}

// TestRequestsAndAnswersGoThroughWhole compares what the service sees, and what it is seen to
// answer, with what was meant.
func TestRequestsAndAnswersGoThroughWhole(t *testing.T) {
	type message struct {
		Method, Target, Body string
		Length               int64
		Header, Trailer      http.Header
	}
	var got message
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = message{r.Method, r.RequestURI, string(body), r.ContentLength, r.Header.Clone(), r.Trailer.Clone()}
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		w.Header()["X-Twice"] = []string{"1", "2"}
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
		w.Header().Set("X-Sum", "17")
	})
	for _, tt := range []struct {
		name string
		ask  message
		want message // where it is another
	}{
		{name: "a plain one", ask: message{Method: http.MethodGet, Target: "/x"}},
		{name: "no path", ask: message{Method: http.MethodGet, Target: ""}, want: message{Target: "/"}},
		{name: "escapes", ask: message{Method: http.MethodDelete, Target: "/a%2Fb/%E2%82%AC//c/;d?q=%zz;&&a=1&A=2"}},
		{name: "an empty query", ask: message{Method: http.MethodGet, Target: "/x?"}, want: message{Target: "/x"}},
		{name: "a path that is a relay's", ask: message{Method: http.MethodGet, Target: "/ask/ask"}},
		{name: "fields that proxies write", ask: message{Method: http.MethodGet, Target: "/", Header: http.Header{
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"x"}, "Forwarded": {"for=a"},
			"Idempotency-Key": {"k"}, "Authorization": {"Bearer theirs"}, "Te": {"trailers"}, "X-Twice": {"1", "2"},
		}}},
		{name: "a body", ask: message{Method: http.MethodPost, Target: "/", Body: "text", Length: 4}},
		{name: "no body", ask: message{Method: http.MethodPost, Target: "/", Header: http.Header{"Idempotency-Key": {"k"}}}},
		{name: "a body of no known length", ask: message{Method: http.MethodPatch, Target: "/", Body: strings.Repeat("x", 100_000), Length: -1}},
		{name: "a trailer", ask: message{Method: http.MethodPut, Target: "/", Body: "text", Length: -1, Trailer: http.Header{"X-Sum": {"4"}}}},
		{name: "no method", ask: message{Target: "/x"}, want: message{Method: http.MethodGet}},
		{name: "a method of its own", ask: message{Method: "PURGE", Target: "/x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, service, func(w *world) {
				_, _, by := ways(w)
				for way, by := range by {
					r := w.request(tt.ask.Method, tt.ask.Target, strings.NewReader(tt.ask.Body))
					if r.ContentLength = tt.ask.Length; tt.ask.Length == 0 {
						r.Body = nil
					}
					r.Method, r.GetBody, r.Host = tt.ask.Method, nil, "client.example.com"
					r.Header = tt.ask.Header.Clone()
					if tt.ask.Trailer != nil {
						r.Trailer = http.Header{"X-Sum": nil}
						r.Body = &atEnd{Reader: r.Body, do: func() { r.Trailer["X-Sum"] = tt.ask.Trailer["X-Sum"] }}
					}
					response, err := by.RoundTrip(r, account, "api", shop)
					if err != nil {
						w.Errorf("%s answers %v", way, err)
						continue
					}
					text, err := read(response, nil)
					answer := message{response.Status, response.Proto, text, response.ContentLength, response.Header, response.Trailer}
					wantAnswer := message{"418 I'm a teapot", "HTTP/1.1", "short and stout", -1, http.Header{"X-Twice": {"1", "2"}}, http.Header{"X-Sum": {"17"}}}
					if diff := cmp.Diff(wantAnswer, answer); diff != "" || err != nil {
						w.Errorf("%s answers otherwise (-want +got): %v\n%s", way, err, diff)
					}
					want := tt.ask
					want.Target = "/base" + want.Target
					if tt.want.Target != "" {
						want.Target = "/base" + tt.want.Target
					}
					if tt.want.Method != "" {
						want.Method = tt.want.Method
					}
					for _, name := range []string{"Content-Length", "Trailer"} { // of the agent's own connection
						got.Header.Del(name)
					}
					if want.Header == nil {
						want.Header = http.Header{}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						w.Errorf("by %s the service is asked otherwise (-want +got):\n%s", way, diff)
					}
				}
			})
		})
	}
}

// atEnd calls do when everything was read.
type atEnd struct {
	io.Reader
	do func()
}

func (a *atEnd) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		a.do()
	}
	return n, err
}

func (a *atEnd) Close() error { return nil }

// TestStreamsGoBothWaysAtOnce has the service answer each line before the next is sent.
func TestStreamsGoBothWaysAtOnce(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		controller := http.NewResponseController(w)
		_ = controller.EnableFullDuplex()
		_ = controller.Flush()
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			if err != nil {
				return
			}
			_, _ = w.Write(bytes.ToUpper(buffer[:n]))
			_ = controller.Flush()
		}
	})
	inWorld(t, service, func(w *world) {
		_, _, by := ways(w)
		for way, by := range by {
			read, write := io.Pipe()
			response, err := by.RoundTrip(w.request(http.MethodPost, "/", read), account, "api", shop)
			if err != nil {
				_ = write.Close()
				w.Fatalf("%s answers %v", way, err)
			}
			buffer := make([]byte, 100)
			for _, line := range []string{"one", "two", "three"} {
				_, _ = io.WriteString(write, line)
				if n, err := response.Body.Read(buffer); string(buffer[:n]) != strings.ToUpper(line) {
					w.Errorf("by %s %q comes back as %q, %v", way, line, buffer[:n], err)
				}
			}
			_ = write.Close()
			if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
				w.Errorf("%s ends with %q, %v", way, rest, err)
			}
		}
	})
}

// TestWhoGoesAwayIsGoneForTheService ends requests of which the service has begun the answer,
// and others of which it has not.
func TestWhoGoesAwayIsGoneForTheService(t *testing.T) {
	ended := make(chan string)
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/begun" {
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		ended <- r.URL.Path
	})
	synced := func(w *world) {
		ended = make(chan string) // of this bubble
		_, _, by := ways(w)
		for way, by := range by {
			for _, path := range []string{"/begun", "/not-begun"} {
				gone := errors.New("gone")
				ctx, cancel := context.WithCancelCause(w.Context())
				result := make(chan error, 1)
				go func() {
					response, err := by.RoundTrip(w.request(http.MethodGet, path, nil).WithContext(ctx), account, "api", shop)
					if err == nil {
						_, err = io.ReadAll(response.Body)
					}
					result <- err
				}()
				synctest.Wait()
				cancel(gone)
				if err := <-result; !errors.Is(err, gone) && (path == "/not-begun" || !errors.Is(err, context.Canceled)) {
					w.Errorf("%s answers %v at %s", way, err, path)
				}
				if at := <-ended; at != "/base"+path {
					w.Errorf("by %s %s has ended", way, at)
				}
			}
		}
	}
	inWorld(t, service, synced)
}

// TestSlowReaderHoldsTheServiceBack counts what a service gets rid of while nobody reads.
func TestSlowReaderHoldsTheServiceBack(t *testing.T) {
	const most = 16 << 20
	var sent int
	service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 64<<10)
		for sent = 0; sent < 2*most; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	inWorld(t, service, func(w *world) {
		_, _, by := ways(w)
		for way, by := range by {
			response, err := by.RoundTrip(w.request(http.MethodGet, "/", nil), account, "api", shop)
			if err != nil {
				w.Fatal(err)
			}
			synctest.Wait()
			if sent >= most {
				w.Errorf("by %s %d bytes are under way that nobody reads", way, sent)
			}
			if n, err := io.Copy(io.Discard, response.Body); n != 2*most || err != nil {
				w.Errorf("by %s %d bytes arrive, %v", way, n, err)
			}
		}
	})
}

// TestServiceSwitchesProtocols speaks one of its own, both ways.
func TestServiceSwitchesProtocols(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "shout" {
			http.Error(w, "no", http.StatusUpgradeRequired)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		for {
			line, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, strings.ToUpper(line))
		}
	})
	inWorld(t, service, func(w *world) {
		_, _, by := ways(w)
		for way, by := range by {
			for protocol, status := range map[string]int{"shout": http.StatusSwitchingProtocols, "sing": http.StatusUpgradeRequired} {
				r := w.request(http.MethodGet, "/", nil)
				r.Header = http.Header{"Upgrade": {protocol}} // its neighbours' Connection is theirs
				response, err := by.RoundTrip(r, account, "api", shop)
				if err != nil || response.StatusCode != status {
					w.Fatalf("%s answers %v, %v", way, response, err)
				}
				if both, ok := response.Body.(io.ReadWriteCloser); ok && status == http.StatusSwitchingProtocols {
					_, _ = io.WriteString(both, "hey\n")
					buffer := make([]byte, 4)
					if _, err := io.ReadFull(both, buffer); string(buffer) != "HEY\n" {
						w.Errorf("by %s it comes back as %q, %v", way, buffer, err)
					}
				}
				_ = response.Body.Close()
			}
		}
	})
}

// TestFailuresAreTheSameByEveryWay asks for what does not work.
func TestFailuresAreTheSameByEveryWay(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/forged":
			w.Header().Set("Gatewright-Relay-Answer", "no-agent")
			w.Header().Set("Gatewright-Tunnel-Failure", "late")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/base/broken":
			panic(http.ErrAbortHandler)
		case "/base/large":
			for i := range 10_000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), "v")
			}
		}
	})
	inWorld(t, service, func(w *world) {
		closed := api("http://nobody.internal")
		closed.Name = "closed"
		w.directory.set(append([]tunnel.Service{closed}, api("http://service.internal/base"))...)
		_, other, by := ways(w)
		preview := tunnel.Caller{Project: "shop", Environment: "preview"}
		for way, by := range by {
			for _, tt := range []struct {
				name, account, service, target string
				caller                         tunnel.Caller
				want                           string
			}{
				{"a service that there is not", account, "other", "/", shop, "unknown-service"},
				{"a service of another account", "a-2", "api", "/", shop, "unknown-service"},
				{"a caller that may not", account, "api", "/", preview, "not-allowed"},
				{"a service that is down", account, "closed", "/", shop, "unreachable"},
				{"one that breaks off", account, "api", "/broken", shop, "unreachable"},
				{"one whose head is too large", account, "api", "/large", shop, "unusable"},
				{"one that speaks as relays and agents do", account, "api", "/forged", shop, "503 Service Unavailable"},
			} {
				response, err := by.RoundTrip(w.request(http.MethodPost, tt.target, nil), tt.account, tt.service, tt.caller)
				got := ""
				if failed, ok := errors.AsType[*tunnel.Error](err); ok {
					got = string(failed.Failure)
				} else if err == nil {
					got = response.Status
					for name := range response.Header {
						if strings.HasPrefix(name, "Gatewright-") {
							w.Errorf("by %s the field %s is in the answer", way, name)
						}
					}
					_ = response.Body.Close()
				}
				if got != tt.want {
					w.Errorf("by %s %s is answered %q, %v, want %q", way, tt.name, got, err, tt.want)
				}
			}
			w.directory.fail(errDown)
			if _, err := w.get(by, "/"); !errors.Is(err, tunnel.ErrUnavailable) {
				w.Errorf("by %s it is answered %v while nothing can be looked up", way, err)
			}
			w.directory.fail(nil)
		}
		other.table.dead.Store(true)
		for _, way := range []string{"another relay", "a client of another relay"} {
			if _, err := w.get(by[way], "/"); !errors.Is(err, tunnel.ErrUnavailable) {
				w.Errorf("by %s it is answered %v while nobody knows who has the tunnel", way, err)
			}
		}
	})
}

// TestNobodyIsThere has no agent, or no relay.
func TestNobodyIsThere(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.relay("a:443")
		for name, by := range map[string]asks{"a relay": a, "a client": w.client("")} {
			began := time.Now()
			if _, err := w.get(by, "/"); !errors.Is(err, tunnel.ErrNoAgent) {
				w.Errorf("%s answers %v without an agent", name, err)
			}
			if !time.Now().Equal(began) {
				w.Errorf("%s waits for an agent that never was there", name)
			}
		}
		w.claim("nobody:443", "rly_0")
		if _, err := w.get(a, "/"); !errors.Is(err, tunnel.ErrUnavailable) || errors.Is(err, tunnel.ErrNoAgent) {
			w.Errorf("a relay answers %v where the one that has the tunnel can't be asked", err)
		}
		by := w.client("")
		a.kill()
		if _, err := w.get(by, "/"); !errors.Is(err, tunnel.ErrUnavailable) {
			w.Errorf("a client answers %v without a relay", err)
		}
	})
}

// TestRelayThatIsPassedARequestKeepsIt has two relays whose rows are wrong name each other.
func TestRelayThatIsPassedARequestKeepsIt(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, b := w.relay("a:443"), w.relay("b:443")
		w.claim(a.name, "rly_1")
		w.claim(b.name, "rly_2")
		a.asked.Store(mostAsked - 100)
		b.asked.Store(mostAsked - 100)
		if _, err := w.get(a, "/"); !errors.Is(err, tunnel.ErrNoAgent) {
			w.Errorf("it is answered %v", err)
		}
		// a asks both rows in each round, itself by its address: its own row has another name here.
		if n, m := a.asked.Load()-mostAsked+100, b.asked.Load()-mostAsked+100; n != m || n == 0 || n > 30 {
			w.Errorf("the relays ask each other %d and %d times", n, m)
		}
	})
}

// TestChangedServicesHoldForTheNextRequest changes where a service is.
func TestChangedServicesHoldForTheNextRequest(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }), func(w *world) {
		_, _, by := ways(w)
		for _, base := range []string{"/base", "/other", "/base"} {
			w.directory.set(api("http://service.internal" + base))
			for way, by := range by {
				if text, err := w.get(by, "/x"); text != base+"/x" || err != nil {
					w.Errorf("by %s it is %q, %v, want %s/x", way, text, err, base)
				}
			}
		}
	})
}

// TestAgentsHearOfTheirFirstAndLastService, and a relay forgets what agents heard that have gone.
func TestAgentsHearOfTheirFirstAndLastService(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		tell := func(services ...tunnel.Service) {
			w.directory.mu.Lock()
			defer w.directory.mu.Unlock()
			w.directory.agents = append([]tunnel.Service{}, services...)
		}
		tell()
		a := w.relay("a:443")
		stop := w.agent("a:443", 2)
		its, other := api("http://service.internal/base"), api("http://service.internal/other")
		other.Name = "other"
		for i, services := range [][]tunnel.Service{nil, {its}, nil, {its, other}, {other}, {other, its}, {its}} {
			tell(services...)
			want := ""
			if i%2 == 0 && i < 6 {
				want = string(tunnel.UnknownService)
			}
			_, err := w.get(a, "/")
			got := ""
			if failed, ok := errors.AsType[*tunnel.Error](err); ok {
				got = string(failed.Failure)
			}
			if got != want || (err == nil) != (want == "") {
				w.Errorf("told of %d services after others it answers %v, want %q", len(services), err, want)
			}
		}
		if n := a.Told(); n != 1 {
			w.Errorf("the agents of %d tunnels were told", n)
		}
		stop()
		time.Sleep(3 * relay.RenewEvery)
		if n := a.Told(); n != 0 {
			w.Errorf("what the agents of %d tunnels heard is remembered, which have gone", n)
		}
	})
}

// TestStrangersAreAnswered asks for what a relay has not.
func TestStrangersAreAnswered(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.relay("a:443")
		for path, want := range map[string]int{
			"/": http.StatusNotFound, "/health": http.StatusNotFound, "/asking": http.StatusNotFound, "/%61sk/x": http.StatusNotFound,
			"/ask": http.StatusUnauthorized, "/ask/": http.StatusUnauthorized, "/connect": http.StatusUnauthorized, "/connect/": http.StatusNotFound,
		} {
			if got := w.raw("a:443", http.MethodGet, path, nil).StatusCode; got != want {
				w.Errorf("%s is answered %d, want %d", path, got, want)
			}
		}
	})
}

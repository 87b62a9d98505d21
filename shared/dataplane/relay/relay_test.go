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

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// message is a request or a response. In a response, Method has the status and Target has the protocol.
type message struct {
	Method, Target, Body string
	Length               int64
	Header, Trailer      http.Header
}

// exchangeCase is a request, and the request that the service must receive.
type exchangeCase struct {
	name    string
	request message
	want    message // the fields that differ from the request
}

// TestRequestsAndResponsesArriveUnchanged compares what the service and the callers receive with the expected messages.
func TestRequestsAndResponsesArriveUnchanged(t *testing.T) {
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
	for _, tt := range []exchangeCase{
		{name: "a plain request", request: message{Method: http.MethodGet, Target: "/x"}},
		{name: "no path", request: message{Method: http.MethodGet, Target: ""}, want: message{Target: "/"}},
		{name: "escapes", request: message{Method: http.MethodDelete, Target: "/a%2Fb/%E2%82%AC//c/;d?q=%zz;&&a=1&A=2"}},
		{name: "an empty query", request: message{Method: http.MethodGet, Target: "/x?"}, want: message{Target: "/x"}},
		{name: "a path like a relay's", request: message{Method: http.MethodGet, Target: "/ask/ask"}},
		{name: "fields that proxies write", request: message{Method: http.MethodGet, Target: "/", Header: http.Header{
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"x"}, "Forwarded": {"for=a"},
			"Idempotency-Key": {"k"}, "Authorization": {"Bearer theirs"}, "Te": {"trailers"}, "X-Twice": {"1", "2"},
		}}},
		{name: "a body", request: message{Method: http.MethodPost, Target: "/", Body: "text", Length: 4}},
		{
			name:    "no body",
			request: message{Method: http.MethodPost, Target: "/", Header: http.Header{"Idempotency-Key": {"k"}}},
		},
		{name: "a body of unknown length", request: message{
			Method: http.MethodPatch, Target: "/", Body: strings.Repeat("x", 100_000), Length: -1,
		}},
		{name: "a trailer", request: message{
			Method: http.MethodPut, Target: "/", Body: "text", Length: -1, Trailer: http.Header{"X-Sum": {"4"}},
		}},
		{name: "no method", request: message{Target: "/x"}, want: message{Method: http.MethodGet}},
		{name: "an unusual method", request: message{Method: "PURGE", Target: "/x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFixture(t, service, func(fx *fixture) {
				_, _, clients := newCallers(fx)
				for caller, client := range clients {
					fx.checkUnchanged(caller, client, tt, &got)
				}
			})
		})
	}
}

// checkUnchanged sends a request through one caller, and compares the response and what the service received.
func (fx *fixture) checkUnchanged(caller string, client roundTripper, tt exchangeCase, got *message) {
	fx.Helper()
	r := fx.request(tt.request.Method, tt.request.Target, strings.NewReader(tt.request.Body))
	if r.ContentLength = tt.request.Length; tt.request.Length == 0 {
		r.Body = nil
	}
	r.Method, r.GetBody, r.Host = tt.request.Method, nil, "client.example.com"
	r.Header = tt.request.Header.Clone()
	if tt.request.Trailer != nil {
		r.Trailer = http.Header{"X-Sum": nil}
		r.Body = &notifyAtEOF{Reader: r.Body, onEOF: func() { r.Trailer["X-Sum"] = tt.request.Trailer["X-Sum"] }}
	}
	response, err := client.RoundTrip(r, account, "api", shop)
	if err != nil {
		fx.Errorf("RoundTrip() by %s: error = %v, want none", caller, err)
		return
	}
	text, err := read(response, nil)
	received := message{response.Status, response.Proto, text, response.ContentLength, response.Header, response.Trailer}
	wantResponse := message{
		"418 I'm a teapot", "HTTP/1.1", "short and stout", -1,
		http.Header{"X-Twice": {"1", "2"}},
		http.Header{"X-Sum": {"17"}},
	}
	if diff := cmp.Diff(wantResponse, received); diff != "" || err != nil {
		fx.Errorf("response by %s: error = %v (-want +got):\n%s", caller, err, diff)
	}
	want := tt.request
	want.Target = "/base" + want.Target
	if tt.want.Target != "" {
		want.Target = "/base" + tt.want.Target
	}
	if tt.want.Method != "" {
		want.Method = tt.want.Method
	}
	for _, name := range []string{"Content-Length", "Trailer"} { // the agent's own connection has these fields
		got.Header.Del(name)
	}
	if want.Header == nil {
		want.Header = http.Header{}
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		fx.Errorf("request at the service by %s (-want +got):\n%s", caller, diff)
	}
}

// notifyAtEOF calls onEOF at the end of the reader.
type notifyAtEOF struct {
	io.Reader
	onEOF func()
}

func (a *notifyAtEOF) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		a.onEOF()
	}
	return n, err
}

func (a *notifyAtEOF) Close() error { return nil }

// TestBidirectionalStreams checks that a client receives the response to each line before it sends the next line.
func TestBidirectionalStreams(t *testing.T) {
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
	withFixture(t, service, func(fx *fixture) {
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			read, write := io.Pipe()
			response, err := client.RoundTrip(fx.request(http.MethodPost, "/", read), account, "api", shop)
			if err != nil {
				_ = write.Close()
				fx.Fatalf("RoundTrip() by %s: error = %v, want none", caller, err)
			}
			buffer := make([]byte, 100)
			for _, line := range []string{"one", "two", "three"} {
				_, _ = io.WriteString(write, line)
				if n, err := response.Body.Read(buffer); string(buffer[:n]) != strings.ToUpper(line) {
					fx.Errorf("stream by %s: Read() = %q, %v, want %q", caller, buffer[:n], err, strings.ToUpper(line))
				}
			}
			_ = write.Close()
			if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
				fx.Errorf("stream by %s: ReadAll() after Close() = %q, %v, want nothing and no error", caller, rest, err)
			}
		}
	})
}

// TestClientDisconnectCancelsTheServiceRequest disconnects clients before and after the
// service has begun its response, and checks that the service's request is canceled.
func TestClientDisconnectCancelsTheServiceRequest(t *testing.T) {
	canceled := make(chan string)
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/begun" {
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		canceled <- r.URL.Path
	})
	test := func(fx *fixture) {
		canceled = make(chan string) // a channel of this bubble
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			for _, path := range []string{"/begun", "/not-begun"} {
				errDisconnected := errors.New("the client has disconnected")
				ctx, cancel := context.WithCancelCause(fx.Context())
				result := make(chan error, 1)
				go func() {
					response, err := client.RoundTrip(fx.request(http.MethodGet, path, nil).WithContext(ctx), account, "api", shop)
					if err == nil {
						_, err = io.ReadAll(response.Body)
					}
					result <- err
				}()
				synctest.Wait()
				cancel(errDisconnected)
				if err := <-result; !errors.Is(err, errDisconnected) &&
					(path == "/not-begun" || !errors.Is(err, context.Canceled)) {
					fx.Errorf("GET %s by %s, disconnected: error = %v, want %v (or %v after the response has begun)",
						path, caller, err, errDisconnected, context.Canceled)
				}
				if got := <-canceled; got != "/base"+path {
					fx.Errorf("GET by %s: path of the canceled request at the service = %s, want /base%s", caller, got, path)
				}
			}
		}
	}
	withFixture(t, service, test)
}

// TestBackpressure checks that a service can send less than 16 MiB while its client does not read.
func TestBackpressure(t *testing.T) {
	const limit = 16 << 20
	var sent int
	service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 64<<10)
		for sent = 0; sent < 2*limit; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	withFixture(t, service, func(fx *fixture) {
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			response, err := client.RoundTrip(fx.request(http.MethodGet, "/", nil), account, "api", shop)
			if err != nil {
				fx.Fatalf("RoundTrip() by %s: error = %v, want none", caller, err)
			}
			synctest.Wait()
			if sent >= limit {
				fx.Errorf("GET by %s: %d unread bytes sent, want less than %d", caller, sent, limit)
			}
			if n, err := io.Copy(io.Discard, response.Body); n != 2*limit || err != nil {
				fx.Errorf("GET by %s: Copy() = %d, %v, want %d", caller, n, err, 2*limit)
			}
		}
	})
}

// TestServiceSwitchesProtocols checks that a client and a service can switch protocols and then exchange bytes.
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
	withFixture(t, service, func(fx *fixture) {
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			for protocol, status := range map[string]int{
				"shout": http.StatusSwitchingProtocols,
				"sing":  http.StatusUpgradeRequired,
			} {
				r := fx.request(http.MethodGet, "/", nil)
				r.Header = http.Header{"Upgrade": {protocol}} // each hop adds its own Connection field
				response, err := client.RoundTrip(r, account, "api", shop)
				if err != nil || response.StatusCode != status {
					fx.Fatalf("GET / with Upgrade: %s by %s = %v, %v, want status %d", protocol, caller, response, err, status)
				}
				if status == http.StatusSwitchingProtocols {
					stream, ok := response.Body.(io.ReadWriteCloser)
					if !ok {
						fx.Fatalf("body of the switched connection by %s is a %T, want an io.ReadWriteCloser", caller, response.Body)
					}
					_, _ = io.WriteString(stream, "hey\n")
					buffer := make([]byte, 4)
					if _, err := io.ReadFull(stream, buffer); string(buffer) != "HEY\n" {
						fx.Errorf("switched connection by %s: ReadFull() = %q, %v, want %q", caller, buffer, err, "HEY\n")
					}
				}
				_ = response.Body.Close()
			}
		}
	})
}

// TestFailuresAreTheSameForEveryCaller checks that a failed request has the same error for each kind of caller.
func TestFailuresAreTheSameForEveryCaller(t *testing.T) {
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
	withFixture(t, service, func(fx *fixture) {
		closed := api("http://nobody.internal")
		closed.Name = "closed"
		fx.directory.set(append([]tunnel.Service{closed}, api("http://service.internal/base"))...)
		_, other, clients := newCallers(fx)
		preview := tunnel.Caller{Project: "shop", Environment: "preview"}
		for caller, client := range clients {
			for _, tt := range []struct {
				name, account, service, target string
				caller                         tunnel.Caller
				want                           string
			}{
				{"an unknown service", account, "other", "/", shop, "unknown-service"},
				{"a service of another account", "a-2", "api", "/", shop, "unknown-service"},
				{"a caller that is not allowed", account, "api", "/", preview, "not-allowed"},
				{"an unreachable service", account, "closed", "/", shop, "unreachable"},
				{"a service that breaks off", account, "api", "/broken", shop, "unreachable"},
				{"a response with a large head", account, "api", "/large", shop, "unusable"},
				{"a response with fields of relays and agents", account, "api", "/forged", shop, "503 Service Unavailable"},
			} {
				response, err := client.RoundTrip(fx.request(http.MethodPost, tt.target, nil), tt.account, tt.service, tt.caller)
				got := ""
				if failed, ok := errors.AsType[*tunnel.Error](err); ok {
					got = string(failed.Failure)
				} else if err == nil {
					got = response.Status
					for name := range response.Header {
						if strings.HasPrefix(name, "Gatewright-") {
							fx.Errorf("POST %s by %s: response has the field %s, want it removed", tt.target, caller, name)
						}
					}
					_ = response.Body.Close()
				}
				if got != tt.want {
					fx.Errorf("POST %s by %s, %s: result = %q, error = %v, want %q", tt.target, caller, tt.name, got, err, tt.want)
				}
			}
			fx.directory.fail(errTableDown)
			if _, err := fx.get(client, "/"); !errors.Is(err, tunnel.ErrUnavailable) {
				fx.Errorf("GET / by %s while the directory is unavailable: error = %v, want %v", caller, err, tunnel.ErrUnavailable)
			}
			fx.directory.fail(nil)
		}
		other.table.dead.Store(true)
		for _, caller := range []string{"another relay", "a client of another relay"} {
			if _, err := fx.get(clients[caller], "/"); !errors.Is(err, tunnel.ErrUnavailable) {
				fx.Errorf("GET / by %s while the table is unavailable: error = %v, want %v", caller, err, tunnel.ErrUnavailable)
			}
		}
	})
}

// TestNoAgentOrRelay checks the errors of requests without an agent, with an unreachable relay and without a relay.
func TestNoAgentOrRelay(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		a := fx.relay("a:443")
		for name, client := range map[string]roundTripper{"a relay": a, "a client": fx.client("")} {
			start := time.Now()
			if _, err := fx.get(client, "/"); !errors.Is(err, tunnel.ErrNoAgent) {
				fx.Errorf("GET / by %s without an agent: error = %v, want %v", name, err, tunnel.ErrNoAgent)
			}
			if !time.Now().Equal(start) {
				fx.Errorf("GET / by %s without an agent took %v, want 0", name, time.Since(start))
			}
		}
		fx.writeRow("nobody:443", "rly_0")
		if _, err := fx.get(a, "/"); !errors.Is(err, tunnel.ErrUnavailable) || errors.Is(err, tunnel.ErrNoAgent) {
			fx.Errorf("GET / with an unreachable relay: error = %v, want %v and not %v",
				err, tunnel.ErrUnavailable, tunnel.ErrNoAgent)
		}
		client := fx.client("")
		a.kill()
		if _, err := fx.get(client, "/"); !errors.Is(err, tunnel.ErrUnavailable) {
			fx.Errorf("GET / without a relay: error = %v, want %v", err, tunnel.ErrUnavailable)
		}
	})
}

// TestForwardedRequestIsNotForwardedAgain checks that two relays without
// agents, whose rows name each other, do not forward a forwarded request again.
func TestForwardedRequestIsNotForwardedAgain(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		a, b := fx.relay("a:443"), fx.relay("b:443")
		fx.writeRow(a.name, "rly_1")
		fx.writeRow(b.name, "rly_2")
		a.requests.Store(maxRequests - 100)
		b.requests.Store(maxRequests - 100)
		if _, err := fx.get(a, "/"); !errors.Is(err, tunnel.ErrNoAgent) {
			fx.Errorf("GET / with two relays and no agent: error = %v, want %v", err, tunnel.ErrNoAgent)
		}
		// In each round, a uses both rows, even the row with its own address, because that row has another ID.
		if n, m := a.requests.Load()-maxRequests+100, b.requests.Load()-maxRequests+100; n != m || n == 0 || n > 30 {
			fx.Errorf("requests at the relays = %d and %d, want the same number at each, 1 to 30", n, m)
		}
	})
}

// TestServiceChangesApplyToTheNextRequest checks that a change of a service's endpoint applies to the next request.
func TestServiceChangesApplyToTheNextRequest(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	}), func(fx *fixture) {
		_, _, clients := newCallers(fx)
		for _, base := range []string{"/base", "/other", "/base"} {
			fx.directory.set(api("http://service.internal" + base))
			for caller, client := range clients {
				if text, err := fx.get(client, "/x"); text != base+"/x" || err != nil {
					fx.Errorf("GET /x by %s = %q, %v, want %s/x", caller, text, err, base)
				}
			}
		}
	})
}

// TestAgentsAreNotifiedOfServiceChanges checks that a change of the services that agents receive applies to the next
// request: the agents refuse a service that they do not know. It also checks that a relay forgets the services of a
// tunnel whose agents have disconnected.
func TestAgentsAreNotifiedOfServiceChanges(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		setServices := func(services ...tunnel.Service) {
			fx.directory.mu.Lock()
			defer fx.directory.mu.Unlock()
			fx.directory.forAgents = append([]tunnel.Service{}, services...)
		}
		setServices()
		a := fx.relay("a:443")
		stop := fx.agent("a:443", 2)
		service, other := api("http://service.internal/base"), api("http://service.internal/other")
		other.Name = "other"
		for i, services := range [][]tunnel.Service{
			nil, {service}, nil, {service, other}, {other}, {other, service}, {service},
		} {
			setServices(services...)
			want := ""
			if i%2 == 0 && i < 6 {
				want = string(tunnel.UnknownService)
			}
			_, err := fx.get(a, "/")
			got := ""
			if tunnelErr, ok := errors.AsType[*tunnel.Error](err); ok {
				got = string(tunnelErr.Failure)
			}
			if got != want || (err == nil) != (want == "") {
				fx.Errorf("GET / after a change to %d services: error = %v, want %q", len(services), err, want)
			}
		}
		if n := a.ConfiguredTunnels(); n != 1 {
			fx.Errorf("ConfiguredTunnels() = %d, want 1", n)
		}
		stop()
		time.Sleep(3 * relay.RenewInterval)
		if n := a.ConfiguredTunnels(); n != 0 {
			fx.Errorf("ConfiguredTunnels() after the agents have disconnected = %d, want 0", n)
		}
	})
}

// TestUnknownPathsAreNotFound checks the status of requests without a pass or token, for known and unknown paths.
func TestUnknownPathsAreNotFound(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		fx.relay("a:443")
		for path, want := range map[string]int{
			"/": http.StatusNotFound, "/health": http.StatusNotFound, "/asking": http.StatusNotFound,
			"/%61sk/x": http.StatusNotFound, "/connect/": http.StatusNotFound,
			"/ask": http.StatusUnauthorized, "/ask/": http.StatusUnauthorized, "/connect": http.StatusUnauthorized,
		} {
			if got := fx.raw("a:443", http.MethodGet, path, nil).StatusCode; got != want {
				fx.Errorf("GET %s: status = %d, want %d", path, got, want)
			}
		}
	})
}

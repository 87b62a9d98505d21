package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOptionsHaveTheirDefaults checks that limits that are not set have defaults: without them there would be no limit.
func TestOptionsHaveTheirDefaults(t *testing.T) {
	type limits struct {
		dial, tls, response time.Duration
		header              int64
		perHost             int
	}
	for name, test := range map[string]struct {
		options Options
		want    limits
	}{
		"no limits": {Options{}, limits{10 * time.Second, 10 * time.Second, time.Minute, 256 << 10, 256}},
		"other limits": {
			Options{DialTimeout: 1, TLSTimeout: 2, ResponseTimeout: 3, MaxHeaderBytes: 4, MaxIdlePerHost: 5},
			limits{1, 2, 3, 4, 5},
		},
	} {
		c := New(test.options)
		transportOptions := c.transports.options
		if got := (limits{
			transportOptions.DialTimeout, transportOptions.TLSTimeout, c.Account("demo").timeout,
			transportOptions.MaxHeaderBytes, transportOptions.MaxIdlePerHost,
		}); got != test.want {
			t.Errorf("%s: options of the transports = %+v, want %+v", name, got, test.want)
		}
		directPath := &c.direct
		if got := (limits{
			transportOptions.DialTimeout, directPath.pool.tlsTimeout, c.Account("demo").timeout, directPath.maxHeaderBytes,
			directPath.pool.perHost,
		}); got != test.want {
			t.Errorf("%s: options of direct connections = %+v, want %+v", name, got, test.want)
		}
		c.Close()
	}
	c := New(Options{MaxIdle: 6})
	defer c.Close()
	if c.direct.pool.maxIdle != 6 || c.transports.options.MaxIdle != 6 {
		t.Errorf("New(MaxIdle 6): limits = %d and %d, want 6 and 6", c.direct.pool.maxIdle, c.transports.options.MaxIdle)
	}
}

// TestMaxIdleIsAQuarterOfTheFileLimit checks that the default maximum of idle connections is a quarter of the number of
// files that the process may open, and never more than 4096.
func TestMaxIdleIsAQuarterOfTheFileLimit(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
			t.Error(err)
		}
	})
	for maxFiles, want := range map[uint64]int{800: 200, 1200: 300, 4 * 4096: 4096, 4*4096 - 4: 4095, 8 * 4096: 4096} {
		if maxFiles > files.Max {
			continue
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: maxFiles, Max: files.Max}); err != nil {
			t.Fatal(err)
		}
		c := New(Options{})
		if got := c.direct.pool.maxIdle; got != want {
			t.Errorf("New() with a limit of %d open files: maximum of idle connections = %d, want %d", maxFiles, got, want)
		}
		c.Close()
	}
}

// TestSwitchToRequestedProtocolIsAccepted checks that an upstream may switch only to the
// requested protocol, in upper or lower case, and not at all if the request has none.
func TestSwitchToRequestedProtocolIsAccepted(t *testing.T) {
	for name, test := range map[string]struct {
		requested, switched string
		body                bool
		ok                  bool
	}{
		"the requested protocol":                             {"websocket", "websocket", false, true},
		"the requested protocol in capitals":                 {"websocket", "WebSocket", false, true},
		"another protocol":                                   {"websocket", "h2c", false, false},
		"no protocol":                                        {"websocket", "", false, false},
		"an unrequested protocol":                            {"", "websocket", false, false},
		"no requested and no new protocol":                   {"", "", false, false},
		"no protocol, for a request with a body":             {"", "", true, false},
		"an unrequested protocol, for a request with a body": {"", "websocket", true, false},
		"one of two requested protocols":                     {"websocket, h2c", "h2c", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				request, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.CopyN(io.Discard, request.Body, request.ContentLength)
				head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
				if test.switched != "" {
					head += "Upgrade: " + test.switched + "\r\n"
				}
				_, _ = io.WriteString(conn, head+"\r\n")
				_, _ = io.Copy(conn, r)
			})
			r := request(t, t.Context(), http.MethodGet, url)
			if test.body {
				r = post(t, url)
			}
			if test.requested != "" {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", test.requested)
			}
			response, err := newClient(t, Options{}).Send(r, nil)
			if !test.ok {
				if !errors.Is(err, errSwitched) {
					t.Errorf("Send() error = %v, want %v", err, errSwitched)
				}
				if err == nil {
					response.Body.Close()
				}
				return
			}
			if err != nil {
				t.Fatalf("Send() error = %v, want none", err)
			}
			defer response.Body.Close()
			switched := response.Body.(io.ReadWriter)
			_, _ = io.WriteString(switched, "there and back")
			got := make([]byte, len("there and back"))
			if _, err := io.ReadFull(switched, got); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
				t.Errorf("Send() status = %d, data = %q, %v, want 101 and the data sent back", response.StatusCode, got, err)
			}
			if diff := cmp.Diff("there and back", string(got)); diff != "" {
				t.Errorf("data sent back by the upstream (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBodilessResponsesMayHaveAContentLength checks that responses without a body
// may declare the length of the body that a GET would get (RFC 9110, section 8.6).
func TestBodilessResponsesMayHaveAContentLength(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, status := range []int{http.StatusNotModified, http.StatusNoContent} {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				w.WriteHeader(status)
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			t.Cleanup(server.Close)
			c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
			response, err := c.Send(request(t, t.Context(), http.MethodGet, server.URL), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != status ||
				response.ContentLength > 0 {
				t.Errorf("HTTP/2 %t: Send() status = %d, length = %d, Copy() error = %v, want status %d, no positive length "+
					"and no error", http2, response.StatusCode, response.ContentLength, err, status)
			}
			_ = response.Body.Close()
		}
	}
}

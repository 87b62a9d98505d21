package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListsOfFieldsAreThoseOfTheirOwnHead: what a Connection field lists is told
// with the response that it came with, be that one of many.
func TestListsOfFieldsAreThoseOfTheirOwnHead(t *testing.T) {
	const hint, ok = "HTTP/1.1 103 Early Hints\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
	type lists []string // the values of a head's Connection fields, nil where it has none
	for name, test := range map[string]struct {
		answer string
		hints  []lists
		final  lists
	}{
		"no list":         {ok + "\r\n", nil, nil},
		"an open end":     {ok + "Connection: x-a\r\n\r\n", nil, lists{"x-a"}},
		"an end":          {ok + "Connection: close, x-a\r\nX-B: 1\r\nConnection: x-c\r\n\r\n", nil, lists{"close, x-a", "x-c"}},
		"an old end":      {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", nil, nil},
		"an old list":     {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: x-a\r\n\r\n", nil, lists{"x-a"}},
		"a hint's alone":  {hint + "Connection: close, x-a\r\n\r\n" + ok + "\r\n", []lists{{"close, x-a"}}, nil},
		"the end's alone": {hint + "\r\n" + ok + "Connection: close, x-a\r\n\r\n", []lists{nil}, lists{"close, x-a"}},
		"each its own": {
			hint + "Connection: close, x-a\r\n\r\n" + hint + "\r\n" + hint + "Connection: close, x-b\r\n\r\n" + ok + "Connection: close, x-c\r\n\r\n",
			[]lists{{"close, x-a"}, nil, {"close, x-b"}},
			lists{"close, x-c"},
		},
		"100 is not told": {
			"HTTP/1.1 100 Continue\r\nConnection: close, x-a\r\n\r\n" + hint + "Connection: close, x-b\r\n\r\n" + ok + "Connection: close, x-c\r\n\r\n",
			[]lists{{"close, x-b"}},
			lists{"close, x-c"},
		},
	} {
		for way, make := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
					if request, err := http.ReadRequest(r); err == nil {
						_, _ = io.Copy(io.Discard, request.Body)
					}
					_, _ = io.WriteString(conn, test.answer+"ok")
				})
				var hints []lists
				response, err := newClient(t, Options{}).Send(make(t, url), func(_ int, h http.Header) { hints = append(hints, h["Connection"]) })
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if diff := cmp.Diff(test.hints, hints); diff != "" {
					t.Errorf("the hints: %s", diff)
				}
				final, there := response.Header["Connection"]
				if diff := cmp.Diff(test.final, lists(final)); diff != "" || there != (test.final != nil) {
					t.Errorf("the response: %s", diff)
				}
				if got, err := io.ReadAll(response.Body); err != nil || string(got) != "ok" {
					t.Errorf("the body is %q, %v", got, err)
				}
			})
		}
	}
}

// TestHintsOfHTTP2AreTold: there are no heads to read again.
func TestHintsOfHTTP2AreTold(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Hint", "1")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
	told := ""
	response, err := c.Send(request(t, t.Context(), "GET", server.URL), func(status int, h http.Header) { told += fmt.Sprint(status, h["X-Hint"], h["Connection"]) })
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != "HTTP/2.0" || told != "103 [1] []" {
		t.Errorf("got %q, %v, and was told %q", got, err, told)
	}
}

// TestABufferOfHeadsIsKeptWithinABound: one upstream's long head is not paid for by
// each connection that ever had one.
func TestABufferOfHeadsIsKeptWithinABound(t *testing.T) {
	for size, kept := range map[int]bool{0: false, 1: true, maxKept: true, maxKept + 1: false} {
		h := heads{raw: make([]byte, size), told: 3}
		h.reset()
		if len(h.raw) != 0 || h.told != 0 || (cap(h.raw) == size && size > 0) != kept {
			t.Errorf("of %d bytes %d are kept, %d of them in use; %d were told", size, cap(h.raw), len(h.raw), h.told)
		}
	}
}

// TestAWatchIsOverOneRequestsHeads: bodies and other requests' heads are none of
// its business, whichever connection they come over.
func TestAWatchIsOverOneRequestsHeads(t *testing.T) {
	connect := func() (*tapped, func(string)) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		conn := &tapped{Conn: ours}
		t.Cleanup(func() { _ = conn.Close() })
		return conn, func(text string) {
			go func() { _, _ = io.WriteString(theirs, text) }()
			if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
				t.Error(err)
			}
		}
	}
	take := func(by *tap, conn net.Conn) {
		r := by.watch(request(t, t.Context(), "GET", "http://up.test/"))
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Conn: conn})
	}
	var first, second tap
	saw := func(want string) {
		t.Helper()
		if got := string(first.heads.raw) + "|" + string(second.heads.raw); got != want {
			t.Errorf("the watches saw %q, not %q", got, want)
		}
	}
	a, arriveOnA := connect()
	b, arriveOnB := connect()
	arriveOnA("nobody's ")
	take(&first, a)
	arriveOnA("1 ")
	arriveOnA("2 ")
	saw("1 2 |")
	take(&first, b) // sent again
	arriveOnA("late ")
	arriveOnB("3 ")
	saw("3 |")
	first.release()
	arriveOnB("body ")
	saw("3 |")
	take(&first, a)
	take(&second, a) // before the first has let go of it
	first.release()
	arriveOnA("4 ")
	saw("|4 ")
	take(&second, struct{ net.Conn }{a}) // HTTP/2 has no heads
	arriveOnA("frame ")
	saw("|4 ")
}

// TestAHeadIsBoundedToTheByte, each of a series by itself.
func TestAHeadIsBoundedToTheByte(t *testing.T) {
	const bound = 5000 // more than is read at once
	head := func(status string, size int) string {
		const end = "\r\nContent-Length: 2\r\n\r\n"
		text := "HTTP/1.1 " + status + "\r\nX: "
		return text + strings.Repeat("x", size-len(text)-len(end)) + end
	}
	for name, test := range map[string]struct {
		answer string
		fits   bool
	}{
		"at the bound":     {head("200 OK", bound), true},
		"a byte more":      {head("200 OK", bound+1), false},
		"much more":        {head("200 OK", 4*bound), false},
		"without an end":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", bound), false},
		"a space too many": {"HTTP/1.1 200 OK\r\nX:" + strings.Repeat(" ", bound-19) + " y\r\n\r\n", false},
		"hint at it":       {strings.ReplaceAll(head("103 Early Hints", bound), "Content-Length", "X-Not-A-Length") + head("200 OK", bound), true},
		"hint beyond it":   {strings.ReplaceAll(head("103 Early Hints", bound+1), "Content-Length", "X-Not-A-Length") + head("200 OK", 100), false},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				// One head after the other, so that none is read along with another.
				for part := range strings.SplitAfterSeq(test.answer, "\r\n\r\n") {
					_, _ = io.WriteString(conn, part)
				}
				_, _ = io.WriteString(conn, "ok")
				_, _ = io.Copy(io.Discard, conn)
			})
			_, got, err := get(t, newClient(t, Options{MaxHeaderBytes: bound}), url)
			if test.fits && (err != nil || got != "ok") || !test.fits && !errors.Is(err, errHeaderTooLarge) && (err == nil || !overStandard(t)) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

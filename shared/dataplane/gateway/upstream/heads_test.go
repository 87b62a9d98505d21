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

// TestConnectionFieldAppliesToItsOwnHead checks that the Connection fields of each response head are passed on with the
// same head, even if informational responses precede the final response.
func TestConnectionFieldAppliesToItsOwnHead(t *testing.T) {
	const hint, ok = "HTTP/1.1 103 Early Hints\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
	type connectionValues []string // the values of a head's Connection fields, nil if it has none
	for name, test := range map[string]struct {
		responseText string
		hints        []connectionValues
		final        connectionValues
	}{
		"no Connection field":                             {ok + "\r\n", nil, nil},
		"a final response that keeps the connection open": {ok + "Connection: x-a\r\n\r\n", nil, connectionValues{"x-a"}},
		"a final response that closes the connection, with two Connection fields": {
			ok + "Connection: close, x-a\r\nX-B: 1\r\nConnection: x-c\r\n\r\n", nil, connectionValues{"close, x-a", "x-c"},
		},
		"HTTP/1.0 without a Connection field": {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", nil, nil},
		"HTTP/1.0 with a Connection field": {
			"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: x-a\r\n\r\n", nil, connectionValues{"x-a"},
		},
		"a Connection field only in the hint": {
			hint + "Connection: close, x-a\r\n\r\n" + ok + "\r\n", []connectionValues{{"close, x-a"}}, nil,
		},
		"a Connection field only in the final response": {
			hint + "\r\n" + ok + "Connection: close, x-a\r\n\r\n", []connectionValues{nil}, connectionValues{"close, x-a"},
		},
		"Connection fields in hints and in the final response": {
			hint + "Connection: close, x-a\r\n\r\n" + hint + "\r\n" + hint + "Connection: close, x-b\r\n\r\n" +
				ok + "Connection: close, x-c\r\n\r\n",
			[]connectionValues{{"close, x-a"}, nil, {"close, x-b"}},
			connectionValues{"close, x-c"},
		},
		"a 100 response is not passed on": {
			"HTTP/1.1 100 Continue\r\nConnection: close, x-a\r\n\r\n" + hint + "Connection: close, x-b\r\n\r\n" +
				ok + "Connection: close, x-c\r\n\r\n",
			[]connectionValues{{"close, x-b"}},
			connectionValues{"close, x-c"},
		},
	} {
		for transportName, newRequest := range requestMakers {
			t.Run(name+" "+transportName, func(t *testing.T) {
				url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
					if request, err := http.ReadRequest(r); err == nil {
						_, _ = io.Copy(io.Discard, request.Body)
					}
					_, _ = io.WriteString(conn, test.responseText+"ok")
				})
				var hints []connectionValues
				response, err := newClient(t, Options{}).Send(newRequest(t, url), func(_ int, h http.Header) {
					hints = append(hints, h["Connection"])
				})
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if diff := cmp.Diff(test.hints, hints); diff != "" {
					t.Errorf("Send(): early hints (-want +got):\n%s", diff)
				}
				final, exists := response.Header["Connection"]
				if diff := cmp.Diff(test.final, connectionValues(final)); diff != "" || exists != (test.final != nil) {
					t.Errorf("Connection of the response: present = %t, want %t (-want +got):\n%s", exists, test.final != nil, diff)
				}
				if got, err := io.ReadAll(response.Body); err != nil || string(got) != "ok" {
					t.Errorf("Send(): body = %q, %v, want ok", got, err)
				}
			})
		}
	}
}

// TestHTTP2EarlyHintsAreForwarded checks hints on HTTP/2 connections, whose heads are not recorded.
func TestHTTP2EarlyHintsAreForwarded(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Hint", "1")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
	hint := ""
	response, err := c.Send(request(t, t.Context(), "GET", server.URL), func(status int, h http.Header) {
		hint += fmt.Sprint(status, h["X-Hint"], h["Connection"])
	})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != "HTTP/2.0" || hint != "103 [1] []" {
		t.Errorf("Send() over HTTP/2: body = %q, %v, hint = %q, want HTTP/2.0 and 103 [1] []", got, err, hint)
	}
}

// TestHeadBufferIsBounded checks that reset frees a buffer that is larger than maxRetainedBuffer.
func TestHeadBufferIsBounded(t *testing.T) {
	for size, retained := range map[int]bool{0: false, 1: true, maxRetainedBuffer: true, maxRetainedBuffer + 1: false} {
		h := heads{raw: make([]byte, size), processed: 3}
		h.reset()
		if len(h.raw) != 0 || h.processed != 0 || (cap(h.raw) == size && size > 0) != retained {
			t.Errorf("reset() of %d bytes: capacity = %d, length = %d, processed = %d, want length 0, processed 0, and the "+
				"buffer retained: %t", size, cap(h.raw), len(h.raw), h.processed, retained)
		}
	}
}

// TestRecorderKeepsHeadsOfOneRequest checks that a recorder keeps only the heads of its own request: no bodies, and no
// heads of other requests. The request can move to another connection.
func TestRecorderKeepsHeadsOfOneRequest(t *testing.T) {
	connect := func() (*recordedConn, func(string)) {
		clientEnd, serverEnd := net.Pipe()
		t.Cleanup(func() { _ = serverEnd.Close() })
		conn := &recordedConn{Conn: clientEnd}
		t.Cleanup(func() { _ = conn.Close() })
		return conn, func(text string) {
			go func() { _, _ = io.WriteString(serverEnd, text) }()
			if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
				t.Errorf("ReadFull(%q) error = %v, want none", text, err)
			}
		}
	}
	record := func(recorder *headRecorder, conn net.Conn) {
		r := recorder.watch(request(t, t.Context(), "GET", "http://up.test/"))
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Conn: conn})
	}
	var first, second headRecorder
	wantRecorded := func(want string) {
		t.Helper()
		if got := string(first.heads.raw) + "|" + string(second.heads.raw); got != want {
			t.Errorf("recorded heads of first|second = %q, want %q", got, want)
		}
	}
	a, arriveOnA := connect()
	b, arriveOnB := connect()
	arriveOnA("nobody's ")
	record(&first, a)
	arriveOnA("1 ")
	arriveOnA("2 ")
	wantRecorded("1 2 |")
	record(&first, b) // the first request is sent again
	arriveOnA("late ")
	arriveOnB("3 ")
	wantRecorded("3 |")
	first.release()
	arriveOnB("body ")
	wantRecorded("3 |")
	record(&first, a)
	record(&second, a) // the first request has not released the connection yet
	first.release()
	arriveOnA("4 ")
	wantRecorded("|4 ")
	// As over HTTP/2, a connection that is no *recordedConn is not recorded.
	record(&second, struct{ net.Conn }{a})
	arriveOnA("frame ")
	wantRecorded("|4 ")
}

// TestResponseHeadLimitIsExact checks that MaxHeaderBytes applies to each head separately: to the final head and to the
// hints before it.
func TestResponseHeadLimitIsExact(t *testing.T) {
	const limit = 5000 // more bytes than one read returns
	head := func(status string, size int) string {
		const end = "\r\nContent-Length: 2\r\n\r\n"
		text := "HTTP/1.1 " + status + "\r\nX: "
		return text + strings.Repeat("x", size-len(text)-len(end)) + end
	}
	for name, test := range map[string]struct {
		responseText string
		fits         bool
	}{
		"a head at the limit":     {head("200 OK", limit), true},
		"one byte over the limit": {head("200 OK", limit+1), false},
		"far over the limit":      {head("200 OK", 4*limit), false},
		"a head without an end":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", limit), false},
		"spaces over the limit":   {"HTTP/1.1 200 OK\r\nX:" + strings.Repeat(" ", limit-19) + " y\r\n\r\n", false},
		"a hint at the limit": {strings.ReplaceAll(head("103 Early Hints", limit), "Content-Length",
			"X-Not-A-Length") + head("200 OK", limit), true},
		"a hint over the limit": {strings.ReplaceAll(head("103 Early Hints", limit+1), "Content-Length",
			"X-Not-A-Length") + head("200 OK", 100), false},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				// Write each head separately, so that heads are not read together.
				for part := range strings.SplitAfterSeq(test.responseText, "\r\n\r\n") {
					_, _ = io.WriteString(conn, part)
				}
				_, _ = io.WriteString(conn, "ok")
				_, _ = io.Copy(io.Discard, conn)
			})
			_, got, err := get(t, newClient(t, Options{MaxHeaderBytes: limit}), url)
			if test.fits && (err != nil || got != "ok") || !test.fits && !errors.Is(err, errHeaderTooLarge) &&
				(err == nil || !isStandardRun(t)) {
				t.Errorf("get() of %s: body = %q, %v, want ok without an error: %t, else %v",
					name, got, err, test.fits, errHeaderTooLarge)
			}
		})
	}
}

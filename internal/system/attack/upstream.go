package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// upstream sends prepared responses byte for byte, and records the requests that it receives. It does not use net/http, which would
// refuse to send most of them.
type upstream struct {
	listener net.Listener

	mu       sync.Mutex
	received map[string][]arrival // by the value of markHeader
}

// arrival is a request as the upstream received it.
type arrival struct {
	Target  string
	Header  http.Header
	Trailer http.Header
	Body    string
}

// markHeader identifies the attack that a request belongs to.
const markHeader = "Attack"

// responses has the bytes of each response, by the value of the query parameter "answer".
var responses = map[string]string{
	"more than it said": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nminefoisted" + secondResponse,
	"a body to HEAD": "HTTP/1.1 200 OK\r\nContent-Length: " +
		strconv.Itoa(len(secondResponse)) + "\r\n\r\n" + secondResponse,
	"a body with 204": "HTTP/1.1 204 No Content\r\nContent-Length: " +
		strconv.Itoa(len(secondResponse)) + "\r\n\r\n" + secondResponse,
	"more after the chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n" +
		secondResponse,
	"status 042":            "HTTP/1.1 042 Odd\r\nContent-Length: 0\r\n\r\n",
	"status 999":            "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
	"a switch of protocols": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + "websocket\r\n\r\n",
	"an early hint": "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: " +
		"4\r\n\r\nmine",
	"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nmine!",
	"a field for one hop": "HTTP/1.1 200 OK\r\nConnection: X-Internal\r\nX-Internal: 1\r\nContent-Length: 4\r\n\r\nmine",
	"no content type":     "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>mine</a>\n",
	"what a server may say": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " +
		strconv.Itoa(len(badRequest)) + "\r\n\r\n" + badRequest,
	"a redirect elsewhere":   "", // respond creates it from the upstream's address
	"a header without limit": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\nContent-Length: 4\r\n\r\nmine",
}

// secondResponse is a complete response that no caller must receive.
const secondResponse = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nfoisted"

// badRequest is how a response begins if net/http's server refuses a request before it calls a handler.
const badRequest = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: " +
	"close\r\n\r\n400 Bad Request"

// listenUpstream starts an upstream on a free port.
func listenUpstream(ctx context.Context) (*upstream, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as an upstream: %w", err)
	}
	u := &upstream{listener: listener, received: map[string][]arrival{}}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u, nil
}

func (u *upstream) close() { _ = u.listener.Close() }

// address returns the address where the upstream listens.
func (u *upstream) address() string { return u.listener.Addr().String() }

// otherAddress returns the address of the same listener with another host name, so that clients see another origin.
func (u *upstream) otherAddress() string {
	_, port, _ := net.SplitHostPort(u.address())
	return "localhost:" + port
}

// arrivals returns the requests of an attack that have arrived.
func (u *upstream) arrivals(mark string) []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.received[mark]
}

// serve records the requests of a connection, and responds to each.
func (u *upstream) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a := arrival{Target: r.RequestURI, Header: r.Header, Trailer: r.Trailer, Body: string(body)}
		mark := r.Header.Get(markHeader)
		if queryMark := r.URL.Query().Get("mark"); queryMark != "" { // a redirected request
			mark = queryMark
		}
		u.mu.Lock()
		u.received[mark] = append(u.received[mark], a)
		u.mu.Unlock()
		if _, err := io.WriteString(c, u.respond(r, a)); err != nil {
			return
		}
		if r.Header.Get("Upgrade") != "" && r.URL.Query().Get("answer") == "a switch of protocols" {
			_, _ = io.Copy(c, in) // a tunnel echoes what it receives
			return
		}
	}
}

// respond returns the response that the query names. Without a name, the response contains the request as it arrived.
func (u *upstream) respond(r *http.Request, a arrival) string {
	name := r.URL.Query().Get("answer")
	if name == "a redirect elsewhere" {
		return "HTTP/1.1 302 Found\r\nLocation: http://" + u.otherAddress() + "/landed?mark=" + a.Header.Get(markHeader) +
			"\r\nContent-Length: 0\r\n\r\n"
	}
	if response, ok := responses[name]; ok {
		return response
	}
	body, err := json.Marshal(a)
	if err != nil {
		return "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body)
}

// servedPath returns the path that an especially permissive server serves. The server decodes the target once, treats a
// backslash as a slash and the text after a semicolon as a parameter, ends a segment at a zero byte, merges slashes and
// resolves dots. Each of these conversions exists in real servers.
func servedPath(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	var segments []string
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";")
		segment, _, _ = strings.Cut(segment, "\x00")
		switch segment {
		case "", ".":
		case "..":
			if len(segments) > 0 {
				segments = segments[:len(segments)-1]
			}
		default:
			segments = append(segments, segment)
		}
	}
	return "/" + strings.Join(segments, "/")
}

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

// upstream answers what stands in answers, byte for byte, and remembers what
// has reached it. It is no net/http server: that would not send most of them.
type upstream struct {
	listener net.Listener

	mu   sync.Mutex
	seen map[string][]arrival // by the attack's mark
}

// arrival is a request as it reached the upstream.
type arrival struct {
	Target  string
	Header  http.Header
	Trailer http.Header
	Body    string
}

// markHeader says which attack a request belongs to.
const markHeader = "Attack"

// answers are what the query's answer names, as they go over the wire.
var answers = map[string]string{
	"more than it said":      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nminefoisted" + foisted,
	"a body to HEAD":         "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(foisted)) + "\r\n\r\n" + foisted,
	"a body with 204":        "HTTP/1.1 204 No Content\r\nContent-Length: " + strconv.Itoa(len(foisted)) + "\r\n\r\n" + foisted,
	"more after the chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n" + foisted,
	"status 042":             "HTTP/1.1 042 Odd\r\nContent-Length: 0\r\n\r\n",
	"status 999":             "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
	"a switch of protocols":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + "websocket\r\n\r\n",
	"an early hint":          "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine",
	"two lengths":            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nmine!",
	"a field for one hop":    "HTTP/1.1 200 OK\r\nConnection: X-Internal\r\nX-Internal: 1\r\nContent-Length: 4\r\n\r\nmine",
	"no content type":        "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>mine</a>\n",
	"what a server may say":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + strconv.Itoa(len(badRequest)) + "\r\n\r\n" + badRequest,
	"a redirect elsewhere":   "", // made where the address is known
	"a header without limit": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\nContent-Length: 4\r\n\r\nmine",
}

// foisted is a whole response that a caller may not get.
const foisted = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nfoisted"

// badRequest is how net/http's server begins what it says before any handler.
const badRequest = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"

func listenUpstream(ctx context.Context) (*upstream, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as an upstream: %w", err)
	}
	u := &upstream{listener: listener, seen: map[string][]arrival{}}
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

// address is where it listens.
func (u *upstream) address() string { return u.listener.Addr().String() }

// elsewhere is the same listener as another origin: by another name of the host.
func (u *upstream) elsewhere() string {
	_, port, _ := net.SplitHostPort(u.address())
	return "localhost:" + port
}

// arrivals gives what has arrived of an attack.
func (u *upstream) arrivals(mark string) []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[mark]
}

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
		if landed := r.URL.Query().Get("mark"); landed != "" {
			mark = landed
		}
		u.mu.Lock()
		u.seen[mark] = append(u.seen[mark], a)
		u.mu.Unlock()
		if _, err := io.WriteString(c, u.answer(r, a)); err != nil {
			return
		}
		if r.Header.Get("Upgrade") != "" && r.URL.Query().Get("answer") == "a switch of protocols" {
			_, _ = io.Copy(c, in) // what is said on a tunnel comes back
			return
		}
	}
}

func (u *upstream) answer(r *http.Request, a arrival) string {
	name := r.URL.Query().Get("answer")
	if name == "a redirect elsewhere" {
		return "HTTP/1.1 302 Found\r\nLocation: http://" + u.elsewhere() + "/landed?mark=" + a.Header.Get(markHeader) + "\r\nContent-Length: 0\r\n\r\n"
	}
	if answer, ok := answers[name]; ok {
		return answer
	}
	body, err := json.Marshal(a)
	if err != nil {
		return "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// served is the path that a server serves which decodes a target once, takes a
// backslash for a slash and what follows a semicolon for a parameter, merges
// slashes and resolves dots: as unkind a reading as servers in use have.
func served(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	var kept []string
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";")
		segment, _, _ = strings.Cut(segment, "\x00")
		switch segment {
		case "", ".":
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, segment)
		}
	}
	return "/" + strings.Join(kept, "/")
}

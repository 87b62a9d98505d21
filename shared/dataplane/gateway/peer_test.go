package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// exchange has the bytes that a client and a service send to each other.
type exchange struct {
	name string
	// request is sent in parts that arrive separately. {case} is replaced with the header that identifies the exchange
	// for the service, and {mib} with 1 MiB of text.
	request []string
	// response is sent in parts, after the service has read the request, or only its head if beforeBody is set.
	response   []string
	beforeBody bool
	// afterwards says what the service does with the connection after the response. With "", it reads the next request.
	afterwards string
	// halfClose makes the client end its side after it has sent everything.
	halfClose bool
	// disconnect makes the client disconnect at the first byte of the response.
	disconnect bool
}

// The values of afterwards.
const (
	thenClose = "closes"
	thenReset = "resets"
	thenWait  = "waits"  // until the other side ends it
	thenEcho  = "echoes" // after a switch of protocols
)

// partInterval is the time between the parts of a message.
const partInterval = 10 * time.Millisecond

// slower doubles d for each previous try, because a busy machine needs more time.
func slower(d time.Duration, try int) time.Duration { return d << try }

// newMark returns a name for a try of the exchange n. path names the connection between client and service, such as a
// tunnel. readMark parses the try and n from the name.
func newMark(path string, try, n int) string { return fmt.Sprint(path, " ", try, " ", n) }

func readMark(mark string) (try, n int, err error) {
	_, err = fmt.Sscanf(mark, "%s %d %d", new(string), &try, &n)
	return try, n, err
}

// recordingService is a service that plays its side of each exchange, and records what it receives.
type recordingService struct {
	testing.TB
	address   string
	exchanges []exchange

	mu     sync.Mutex
	got    map[string][]string // the received lines, by the mark of the exchange
	active map[string]int      // the number of exchanges that have not ended, by mark
}

// newRecordingService starts a service, which plays its side of the exchanges.
func newRecordingService(t testing.TB, exchanges []exchange) *recordingService {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &recordingService{
		TB: t, address: l.Addr().String(), exchanges: exchanges, got: map[string][]string{},
		active: map[string]int{},
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if c, ok := conn.(*net.TCPConn); ok {
				go s.serve(c)
			}
		}
	}()
	return s
}

// received waits until the service has finished an exchange, and returns what the service has received. If the exchange
// does not end, it returns a text that says so.
func (s *recordingService) received(mark string) string {
	for end := time.Now().Add(deadline.Timeout()); time.Now().Before(end); time.Sleep(partInterval) {
		s.mu.Lock()
		got, active := strings.Join(s.got[mark], "\n"), s.active[mark]
		s.mu.Unlock()
		if active == 0 {
			return got
		}
	}
	return "it does not end"
}

// serve reads the heads of requests on a connection, and plays the exchange that the field X-Case of each head names.
func (s *recordingService) serve(c *net.TCPConn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		h := textproto.MIMEHeader{}
		var fields []string
		for {
			field, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if field = strings.TrimRight(field, "\r\n"); field == "" {
				break
			}
			name, value, _ := strings.Cut(field, ":")
			h.Add(name, strings.TrimSpace(value))
			fields = append(fields, strings.ToLower(name)+": "+strings.TrimSpace(value))
		}
		slices.Sort(fields)
		mark := h.Get("X-Case")
		try, n, err := readMark(mark)
		if err != nil {
			s.Errorf("readMark(%q) error = %v, want a mark in each request: %q", mark, err, line)
			return
		}
		s.addActive(mark, +1)
		x := &servedExchange{TCPConn: c, in: in, exchange: s.exchanges[n], try: try, header: h, record: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got[mark] = append(s.got[mark], text)
		}}
		x.record(strings.TrimSpace(line) + "\n" + strings.Join(fields, "\n"))
		keepOpen := x.serve()
		s.addActive(mark, -1)
		if !keepOpen {
			return
		}
	}
}

// addActive adds n to the number of exchanges with a mark that have not ended.
func (s *recordingService) addActive(mark string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[mark] += n
}

// servedExchange is an exchange at the service.
type servedExchange struct {
	*net.TCPConn
	in *bufio.Reader
	exchange
	try    int
	header textproto.MIMEHeader
	record func(text string)
}

// serve plays the service's side of the exchange, and reports whether another request can follow.
func (e *servedExchange) serve() bool {
	if !e.beforeBody && !e.read() {
		return false
	}
	if !write(e.TCPConn, e.response, slower(partInterval, e.try)) {
		return false
	}
	switch e.afterwards {
	case thenClose:
		_ = e.CloseWrite()
		_ = e.SetReadDeadline(time.Now().Add(slower(time.Second, e.try)))
		_, _ = io.Copy(io.Discard, e.in)
		return false
	case thenReset:
		_ = e.SetLinger(0)
		return false
	case thenWait:
		_ = e.SetReadDeadline(time.Now().Add(slower(3*time.Second, e.try)))
		if _, err := e.in.ReadByte(); !timedOut(err) {
			e.record("the connection ends")
		}
		return false
	case thenEcho:
		_, _ = io.Copy(e.TCPConn, e.in)
		e.record("the switched connection ends")
		_, _ = io.WriteString(e.TCPConn, "bye")
		return false
	}
	return !e.beforeBody || e.read()
}

// read reads and records the body and trailer, and reports whether they were complete.
func (e *servedExchange) read() bool {
	var body io.Reader = strings.NewReader("")
	chunked := strings.EqualFold(e.header.Get("Transfer-Encoding"), "chunked")
	length, err := strconv.ParseInt(e.header.Get("Content-Length"), 10, 64)
	switch {
	case chunked:
		body = httputil.NewChunkedReader(e.in)
	case err == nil:
		body = io.LimitReader(e.in, length)
	}
	all, err := io.ReadAll(body)
	e.record("body " + short(string(all)))
	if err != nil || !chunked && int64(len(all)) < length {
		e.record("the body breaks off")
		return false
	}
	for chunked {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return false
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			break
		}
		e.record("trailer " + strings.ToLower(line))
	}
	return true
}

// write writes parts with an interval between them, and reports whether they were accepted. It replaces {mib} in a part
// with 1 MiB of text.
func write(c net.Conn, parts []string, interval time.Duration) bool {
	for i, part := range parts {
		if i > 0 {
			time.Sleep(interval)
		}
		if _, err := io.WriteString(c, strings.ReplaceAll(part, "{mib}", strings.Repeat("x", 1<<20))); err != nil {
			return false
		}
	}
	return true
}

// short returns a text, or only its length if it is long.
func short(text string) string {
	if len(text) > 200 {
		return fmt.Sprintf("%d bytes", len(text))
	}
	return text
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// play plays the client of an exchange at an address with a mark, and returns what the client has received.
func play(t testing.TB, mark, address string, e exchange) string {
	t.Helper()
	try, _, err := readMark(mark)
	if err != nil {
		t.Errorf("readMark(%q) error = %v, want a mark", mark, err)
		return ""
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	c, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		t.Errorf("Dial(%s) = %T, %v, want a TCP connection", address, conn, err)
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(deadline.Timeout()))
	go func() {
		var parts []string
		for _, part := range e.request {
			parts = append(parts, strings.ReplaceAll(part, "{case}", "Host: shop.test\r\nX-Case: "+mark+"\r\n"))
		}
		if write(c, parts, slower(partInterval, try)) && e.halfClose {
			_ = c.CloseWrite()
		}
	}()
	in := bufio.NewReader(c)
	if e.disconnect {
		_, _ = in.ReadByte()
		return ""
	}
	method, _, _ := strings.Cut(e.request[0], " ")
	var out []string
	for {
		response, err := http.ReadResponse(in, &http.Request{Method: method})
		switch {
		case timedOut(err):
			return strings.Join(append(out, "nothing more comes"), "\n")
		case err != nil:
			return strings.Join(append(out, "the connection ends"), "\n")
		}
		out = append(out, headOf(response))
		switch {
		case response.StatusCode == http.StatusSwitchingProtocols:
			_, _ = io.WriteString(c, "hello")
			_ = c.CloseWrite()
			rest, _ := io.ReadAll(in)
			return strings.Join(append(out, "switched: "+string(rest)), "\n")
		case response.StatusCode >= http.StatusOK:
			out = append(out, bodyOf(response))
			if e.beforeBody { // then it depends on timing whether the connection is reused
				return strings.Join(out, "\n")
			}
			if !response.Close { // nginx closes such a connection with a delay
				_ = c.SetReadDeadline(time.Now().Add(slower(300*time.Millisecond, try)))
			}
		}
	}
}

// headOf returns the status, the framing and the fields of a response for the transcript.
func headOf(r *http.Response) string {
	var fields []string
	for name, values := range r.Header {
		for _, v := range values {
			fields = append(fields, strings.ToLower(name)+": "+short(v))
		}
	}
	slices.Sort(fields)
	framing := "until the end"
	switch {
	case len(r.TransferEncoding) > 0:
		framing = "in chunks"
	case r.ContentLength >= 0:
		framing = fmt.Sprint(r.ContentLength, " bytes")
	}
	return fmt.Sprintf("%d %s\n%s", r.StatusCode, framing, strings.Join(fields, "\n"))
}

// bodyOf reads the body and the trailer of a response, and returns them for the transcript.
func bodyOf(r *http.Response) string {
	defer func() { _ = r.Body.Close() }()
	all, err := io.ReadAll(r.Body)
	text := "body " + short(string(all))
	if err != nil {
		text += " and breaks off"
	}
	for name, values := range r.Trailer {
		text += fmt.Sprintf(" trailer %s %q", name, values)
	}
	return text
}

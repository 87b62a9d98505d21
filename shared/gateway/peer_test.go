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

	"github.com/gatewright/gatewright/internal/deadline"
)

// exchange is what a client says and what a service answers, both byte by byte.
type exchange struct {
	name string
	// request is written in its parts, which arrive apart. {case} is the header by which the service
	// knows the exchange.
	request []string
	// answer is written in its parts, once the request is read, or its head alone where it is early.
	answer []string
	early  bool
	// then is what the service does with the connection; "" has it read on.
	then string
	// half has the client end its side once it has written all.
	half bool
	// gone has the client go with the first byte of the answer.
	gone bool
}

const (
	closes = "closes"
	resets = "resets"
	waits  = "waits"  // until the other side ends it
	echoes = "echoes" // what has switched protocols
)

// apart is the time between the parts of what is written.
const apart = 10 * time.Millisecond

// slower is twice d for each try before this one, so that a busy machine has the time that it needs.
func slower(d time.Duration, try int) time.Duration { return d << try }

// markOf names the exchange n of a try by one way. try and n are read back from it.
func markOf(way string, try, n int) string { return fmt.Sprint(way, " ", try, " ", n) }

func readMark(mark string) (try, n int, err error) {
	_, err = fmt.Sscanf(mark, "%s %d %d", new(string), &try, &n)
	return try, n, err
}

// plainService is a service of bytes. It notes of each exchange what it was sent.
type plainService struct {
	testing.TB
	address   string
	exchanges []exchange

	mu     sync.Mutex
	got    map[string][]string // by the mark of the exchange
	active map[string]int
}

func servePlainly(t testing.TB, exchanges []exchange) *plainService {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &plainService{TB: t, address: l.Addr().String(), exchanges: exchanges, got: map[string][]string{}, active: map[string]int{}}
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

// seen is what the service has noted of an exchange, once it has done with it.
func (s *plainService) seen(mark string) string {
	for end := time.Now().Add(deadline.Long()); time.Now().Before(end); time.Sleep(apart) {
		s.mu.Lock()
		got, active := strings.Join(s.got[mark], "\n"), s.active[mark]
		s.mu.Unlock()
		if active == 0 {
			return got
		}
	}
	return "it does not end"
}

func (s *plainService) serve(c *net.TCPConn) {
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
			s.Errorf("a request without its mark: %q", line)
			return
		}
		s.began(mark, +1)
		x := &served{TCPConn: c, in: in, exchange: s.exchanges[n], try: try, header: h, note: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got[mark] = append(s.got[mark], text)
		}}
		x.note(strings.TrimSpace(line) + "\n" + strings.Join(fields, "\n"))
		stays := x.serve()
		s.began(mark, -1)
		if !stays {
			return
		}
	}
}

func (s *plainService) began(mark string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[mark] += n
}

// served is an exchange at the service.
type served struct {
	*net.TCPConn
	in *bufio.Reader
	exchange
	try    int
	header textproto.MIMEHeader
	note   func(text string)
}

// serve reports whether another request may follow.
func (x *served) serve() bool {
	if !x.early && !x.read() {
		return false
	}
	if !write(x.TCPConn, x.answer, slower(apart, x.try)) {
		return false
	}
	switch x.then {
	case closes:
		_ = x.CloseWrite()
		_ = x.SetReadDeadline(time.Now().Add(slower(time.Second, x.try)))
		_, _ = io.Copy(io.Discard, x.in)
		return false
	case resets:
		_ = x.SetLinger(0)
		return false
	case waits:
		_ = x.SetReadDeadline(time.Now().Add(slower(3*time.Second, x.try)))
		if _, err := x.in.ReadByte(); !timedOut(err) {
			x.note("the connection ends")
		}
		return false
	case echoes:
		_, _ = io.Copy(x.TCPConn, x.in)
		x.note("the switched connection ends")
		_, _ = io.WriteString(x.TCPConn, "bye")
		return false
	}
	return !x.early || x.read()
}

// read notes the body, and reports whether it was whole.
func (x *served) read() bool {
	var body io.Reader = strings.NewReader("")
	chunked := strings.EqualFold(x.header.Get("Transfer-Encoding"), "chunked")
	length, err := strconv.ParseInt(x.header.Get("Content-Length"), 10, 64)
	switch {
	case chunked:
		body = httputil.NewChunkedReader(x.in)
	case err == nil:
		body = io.LimitReader(x.in, length)
	}
	all, err := io.ReadAll(body)
	x.note("body " + short(string(all)))
	if err != nil || !chunked && int64(len(all)) < length {
		x.note("the body breaks off")
		return false
	}
	for chunked {
		line, err := x.in.ReadString('\n')
		if err != nil {
			return false
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			break
		}
		x.note("trailer " + strings.ToLower(line))
	}
	return true
}

// write writes parts with a pause between them, and reports whether they were taken.
func write(c net.Conn, parts []string, pause time.Duration) bool {
	for i, part := range parts {
		if i > 0 {
			time.Sleep(pause)
		}
		if _, err := io.WriteString(c, strings.ReplaceAll(part, "{mib}", strings.Repeat("x", 1<<20))); err != nil {
			return false
		}
	}
	return true
}

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

// play has a client say its part to an address under a mark, and tells what came back.
func play(t testing.TB, mark, address string, e exchange) string {
	t.Helper()
	try, _, err := readMark(mark)
	if err != nil {
		t.Error(err)
		return ""
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	c, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		t.Error(err)
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(deadline.Long()))
	go func() {
		var parts []string
		for _, part := range e.request {
			parts = append(parts, strings.ReplaceAll(part, "{case}", "Host: shop.test\r\nX-Case: "+mark+"\r\n"))
		}
		if write(c, parts, slower(apart, try)) && e.half {
			_ = c.CloseWrite()
		}
	}()
	in := bufio.NewReader(c)
	if e.gone {
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
			if e.early { // whether the connection stays depends on what the proxy has read of the body by then
				return strings.Join(out, "\n")
			}
			if !response.Close { // which nginx waits with
				_ = c.SetReadDeadline(time.Now().Add(slower(300*time.Millisecond, try)))
			}
		}
	}
}

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

package listen_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// secure is a server by TLS, and where it listens.
type secure struct {
	*listen.Server
	listener net.Listener
	roots    *x509.CertPool
	log      *lockedBuffer
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// multiplexing serves HTTP/2 at a listener, nil for one of this machine.
func multiplexing(t *testing.T, l net.Listener, h http.HandlerFunc, set func(*listen.Options)) *secure {
	t.Helper()
	if l == nil {
		var err error
		if l, err = listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING"); err != nil {
			t.Fatal(err)
		}
	}
	ca := pkitest.CA(t, "CA", time.Now())
	s := &secure{listener: l, roots: ca.Pool(), log: &lockedBuffer{}}
	o := listen.Options{
		Handler: h, Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.NewTextHandler(s.log, nil)),
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)}},
	}
	if set != nil {
		set(&o)
	}
	s.Server = listen.New(o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return s
}

// inFrames runs a test in a bubble, with a server by TLS there.
func inFrames(t *testing.T, h http.HandlerFunc, test func(*testing.T, *secure, pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		test(t, multiplexing(t, p, h, nil), p)
	})
}

// framed is a client of frames.
type framed struct {
	*http2.Framer
	net.Conn
	t        *testing.T
	heads    *hpack.Encoder
	block    bytes.Buffer
	received chan frame
	last     uint32
	// soFar is what streams have come to.
	soFar map[uint32]*told
}

// frame is what of one is asked about.
type frame struct {
	kind   http2.FrameType
	stream uint32
	end    bool
	code   http2.ErrCode
	fields map[string]string
	data   string
}

// dialFrames opens a connection and exchanges the prefaces.
func (s *secure) dialFrames(t *testing.T, settings ...http2.Setting) *framed {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Long()))
	return s.framesOver(t, c, settings...)
}

func (s *secure) framesOver(t *testing.T, c net.Conn, settings ...http2.Setting) *framed {
	t.Helper()
	f := s.handshakeOver(t, c)
	if _, err := io.WriteString(f.Conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f.must(f.WriteSettings(settings...))
	f.must(f.WriteSettingsAck())
	return f
}

// handshakeOver has sent nothing of HTTP/2 yet.
func (s *secure) handshakeOver(t *testing.T, c net.Conn) *framed {
	t.Helper()
	over := tls.Client(c, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"}})
	t.Cleanup(func() { _ = c.Close() })
	if err := over.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := over.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("it speaks %q", got)
	}
	f := &framed{Framer: http2.NewFramer(over, over), Conn: over, t: t, received: make(chan frame, 1<<14), soFar: map[uint32]*told{}}
	f.heads = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	go f.receive()
	return f
}

func (f *framed) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// receive reads all the time, so that writes of the server never wait for the test.
func (f *framed) receive() {
	defer close(f.received)
	for {
		read, err := f.ReadFrame()
		if err != nil {
			return
		}
		got := frame{kind: read.Header().Type, stream: read.Header().StreamID, end: read.Header().Flags.Has(http2.FlagDataEndStream), fields: map[string]string{}}
		switch read := read.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range read.Fields {
				got.fields[field.Name] = field.Value
			}
		case *http2.DataFrame:
			got.data = string(read.Data())
		case *http2.RSTStreamFrame:
			got.code = read.ErrCode
		case *http2.GoAwayFrame:
			got.code, got.stream = read.ErrCode, read.LastStreamID
		case *http2.SettingsFrame, *http2.WindowUpdateFrame, *http2.PingFrame:
			continue
		}
		f.received <- got
	}
}

// usual are the pseudo-fields of a GET for a path.
func usual(path string) []string {
	return []string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", path}
}

// posted are those of a POST.
func posted(path string) []string {
	return append([]string{":method", "POST"}, usual(path)[2:]...)
}

// encode gives the block of fields, a name before its value.
func (f *framed) encode(fields ...string) []byte {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.must(f.heads.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return f.block.Bytes()
}

// request begins a stream, which ends with its head unless there is a body.
func (f *framed) request(body bool, fields ...string) uint32 {
	f.t.Helper()
	f.last = max(f.last+2, 1)
	if f.last%2 == 0 {
		f.last--
	}
	block := f.encode(fields...)
	const most = 16 << 10
	first := block[:min(len(block), most)]
	f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.last, BlockFragment: first, EndHeaders: len(first) == len(block), EndStream: !body}))
	for block = block[len(first):]; len(block) > 0; {
		next := block[:min(len(block), most)]
		block = block[len(next):]
		f.must(f.WriteContinuation(f.last, len(block) == 0, next))
	}
	return f.last
}

// told is what a stream came to: a status with a body, or an error.
type told struct {
	status, kind, body string
	code               http2.ErrCode
	reset, gone        bool
	over               bool // with the stream
}

// answer reads until a stream has ended.
func (f *framed) answer(stream uint32) told {
	f.t.Helper()
	for {
		if its := f.soFar[stream]; its != nil && its.over {
			its.over = false
			return *its
		}
		got, ok := <-f.received
		switch {
		case !ok:
			return told{gone: true}
		case got.kind == http2.FrameGoAway && got.code != http2.ErrCodeNo:
			return told{code: got.code, gone: true}
		case got.kind != http2.FrameGoAway:
			f.note(got)
		}
	}
}

func (f *framed) note(got frame) {
	its := f.soFar[got.stream]
	if its == nil {
		its = &told{}
		f.soFar[got.stream] = its
	}
	switch got.kind { //nolint:exhaustive // the others say nothing of it
	case http2.FrameHeaders:
		if its.status == "" || its.status[0] == '1' {
			its.status, its.kind = got.fields[":status"], got.fields["content-type"]
		}
	case http2.FrameData:
		its.body += got.data
	case http2.FrameRSTStream:
		its.reset, its.code, its.over = true, got.code, true
	}
	its.over = its.over || got.end
}

// ends reads until the connection has ended, and gives the last code of it.
func (f *framed) ends() (code http2.ErrCode, told bool) {
	for got := range f.received {
		if got.kind == http2.FrameGoAway {
			code, told = got.code, true
		}
	}
	return code, told
}

// tlsOf is a client's that speaks HTTP/1.1.
func tlsOf(s *secure) *tls.Config {
	return &tls.Config{RootCAs: s.roots, NextProtos: []string{"http/1.1"}}
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never is")
		}
	}
}

// transport is a client by HTTP/2 as Go has it.
func (s *secure) transport(t *testing.T) *http.Transport {
	t.Helper()
	out := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, ServerName: "localhost"}, ForceAttemptHTTP2: true}
	t.Cleanup(out.CloseIdleConnections)
	return out
}

func (s *secure) ask(t *testing.T, by *http.Transport, method, path, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.listener.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(got)
}

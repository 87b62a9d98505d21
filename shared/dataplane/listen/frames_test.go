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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// tlsServer is a TLS server, with its listener, the CA of its certificate, and its log.
type tlsServer struct {
	*listen.Server
	listener net.Listener
	roots    *x509.CertPool
	log      *lockedBuffer
}

// lockedBuffer is a buffer for a log that can be read while it is written.
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

// newHTTP2Server starts a TLS server with HTTP/2 at l, or at a new listener on this machine if l is nil.
func newHTTP2Server(t *testing.T, l net.Listener, h http.HandlerFunc, set func(*listen.Options)) *tlsServer {
	t.Helper()
	if l == nil {
		var err error
		if l, err = listen.Open(t.Context(), "127.0.0.1:0", "the test", "NOTHING"); err != nil {
			t.Fatal(err)
		}
	}
	ca := pkitest.CA(t, "CA", time.Now())
	s := &tlsServer{listener: l, roots: ca.Pool(), log: &lockedBuffer{}}
	o := listen.Options{
		Handler: h, Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now),
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)},
		},
	}
	if set != nil {
		set(&o)
	}
	s.Server = listen.New(o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return s
}

// runHTTP2 runs a test in a bubble, with a TLS server.
func runHTTP2(t *testing.T, h http.HandlerFunc, test func(*testing.T, *tlsServer, pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		test(t, newHTTP2Server(t, p, h, nil), p)
	})
}

// frameClient is a client that sends and receives frames.
type frameClient struct {
	*http2.Framer
	net.Conn
	t          *testing.T
	encoder    *hpack.Encoder
	block      bytes.Buffer // the output of encoder
	received   chan frame   // closed when the connection has ended
	lastStream uint32       // the number of the latest stream that request has started, 0 before
	// results has the results of streams, as far as record has received them. The keys are stream numbers.
	results map[uint32]*streamResult
}

// frame has the values of a frame that tests check.
type frame struct {
	kind   http2.FrameType
	stream uint32
	end    bool // the frame ends its stream
	code   http2.ErrCode
	fields map[string]string
	data   string
}

// dialFrames opens a connection and sends the client's preface and settings.
func (s *tlsServer) dialFrames(t *testing.T, settings ...http2.Setting) *frameClient {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(deadline.Timeout()))
	return s.handshakeFrames(t, c, settings...)
}

// handshakeFrames performs the TLS handshake, and sends the client's preface and settings.
func (s *tlsServer) handshakeFrames(t *testing.T, c net.Conn, settings ...http2.Setting) *frameClient {
	t.Helper()
	f := s.handshake(t, c)
	if _, err := io.WriteString(f.Conn, http2.ClientPreface); err != nil {
		t.Fatalf("Write(preface) error = %v, want none", err)
	}
	f.must(f.WriteSettings(settings...))
	f.must(f.WriteSettingsAck())
	return f
}

// handshake performs the TLS handshake, and returns a client that has not sent the preface.
func (s *tlsServer) handshake(t *testing.T, c net.Conn) *frameClient {
	t.Helper()
	tlsConn := tls.Client(c, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"}})
	t.Cleanup(func() { _ = c.Close() })
	if err := tlsConn.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("HandshakeContext() error = %v, want none", err)
	}
	if got := tlsConn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("negotiated protocol = %q, want h2", got)
	}
	f := &frameClient{
		Framer: http2.NewFramer(tlsConn, tlsConn), Conn: tlsConn, t: t, received: make(chan frame, 1<<14),
		results: map[uint32]*streamResult{},
	}
	f.encoder = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	go f.receive()
	return f
}

func (f *frameClient) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatalf("writing or encoding a frame: error = %v, want none", err)
	}
}

// receive reads all frames, so that the server's writes never wait for the test.
func (f *frameClient) receive() {
	defer close(f.received)
	for {
		rawFrame, err := f.ReadFrame()
		if err != nil {
			return
		}
		got := frame{
			kind: rawFrame.Header().Type, stream: rawFrame.Header().StreamID,
			end: rawFrame.Header().Flags.Has(http2.FlagDataEndStream), fields: map[string]string{},
		}
		switch rawFrame := rawFrame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range rawFrame.Fields {
				got.fields[field.Name] = field.Value
			}
		case *http2.DataFrame:
			got.data = string(rawFrame.Data())
		case *http2.RSTStreamFrame:
			got.code = rawFrame.ErrCode
		case *http2.GoAwayFrame:
			got.code, got.stream = rawFrame.ErrCode, rawFrame.LastStreamID
		case *http2.SettingsFrame, *http2.WindowUpdateFrame, *http2.PingFrame:
			continue
		}
		f.received <- got
	}
}

// getFields returns the pseudo-header fields of a GET for a path.
func getFields(path string) []string {
	return []string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", path}
}

// postFields returns the pseudo-header fields of a POST.
func postFields(path string) []string {
	return append([]string{":method", "POST"}, getFields(path)[2:]...)
}

// encode returns the header block of fields, each name followed by its value.
func (f *frameClient) encode(fields ...string) []byte {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.must(f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return f.block.Bytes()
}

// request starts a stream and returns its number. If body is false, the request ends with its head.
func (f *frameClient) request(body bool, fields ...string) uint32 {
	f.t.Helper()
	f.lastStream = max(f.lastStream+2, 1)
	if f.lastStream%2 == 0 {
		f.lastStream--
	}
	block := f.encode(fields...)
	const maxFragment = 16 << 10
	first := block[:min(len(block), maxFragment)]
	f.must(f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: f.lastStream, BlockFragment: first,
		EndHeaders: len(first) == len(block), EndStream: !body,
	}))
	for block = block[len(first):]; len(block) > 0; {
		next := block[:min(len(block), maxFragment)]
		block = block[len(next):]
		f.must(f.WriteContinuation(f.lastStream, len(block) == 0, next))
	}
	return f.lastStream
}

// streamResult is the result of a stream: the response, or the error code of a reset or of the connection.
type streamResult struct {
	status, contentType, body string
	code                      http2.ErrCode
	reset, closed             bool
	ended                     bool // the stream has ended, and waitResult has not returned its result yet
}

// waitResult reads until a stream has ended, and returns its result. If the connection ends before, it returns a
// result with closed, and with the error code of the GOAWAY if there was one.
func (f *frameClient) waitResult(stream uint32) streamResult {
	f.t.Helper()
	for {
		if result := f.results[stream]; result != nil && result.ended {
			result.ended = false
			return *result
		}
		got, ok := <-f.received
		switch {
		case !ok:
			return streamResult{closed: true}
		case got.kind == http2.FrameGoAway && got.code != http2.ErrCodeNo:
			return streamResult{code: got.code, closed: true}
		case got.kind != http2.FrameGoAway:
			f.record(got)
		}
	}
}

// record adds a frame to the result of its stream.
func (f *frameClient) record(got frame) {
	result := f.results[got.stream]
	if result == nil {
		result = &streamResult{}
		f.results[got.stream] = result
	}
	switch got.kind { //nolint:exhaustive // other frames do not affect the result
	case http2.FrameHeaders:
		if result.status == "" || result.status[0] == '1' {
			result.status, result.contentType = got.fields[":status"], got.fields["content-type"]
		}
	case http2.FrameData:
		result.body += got.data
	case http2.FrameRSTStream:
		result.reset, result.code, result.ended = true, got.code, true
	}
	result.ended = result.ended || got.end
}

// waitClosed reads until the connection has ended, and returns the error code of the last GOAWAY, if there was one.
func (f *frameClient) waitClosed() (code http2.ErrCode, gotGoAway bool) {
	for got := range f.received {
		if got.kind == http2.FrameGoAway {
			code, gotGoAway = got.code, true
		}
	}
	return code, gotGoAway
}

// http1TLSConfig returns the configuration of a client that uses HTTP/1.1.
func http1TLSConfig(s *tlsServer) *tls.Config {
	return &tls.Config{RootCAs: s.roots, NextProtos: []string{"http/1.1"}}
}

// eventually waits until condition returns true. It fails the test after 20 s.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("condition = false after 20 s, want true")
		}
	}
}

// transport returns an http.Transport that uses HTTP/2.
func (s *tlsServer) transport(t *testing.T) *http.Transport {
	t.Helper()
	out := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.roots, ServerName: "localhost"},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(out.CloseIdleConnections)
	return out
}

// do sends a request, and returns the response and its body.
func (s *tlsServer) do(t *testing.T, transport *http.Transport, method, path, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.listener.Addr().String()+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("RoundTrip(%s %s) error = %v, want none", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("ReadAll(response to %s %s) error = %v, want none", method, path, err)
	}
	return response, string(got)
}

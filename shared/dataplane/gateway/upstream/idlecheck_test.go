package upstream

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// sealer encrypts TLS 1.3 records for a connection after its handshake. Package tls does not
// let a server choose how to split data into records and when to send other records than data.
type sealer struct {
	t       *testing.T
	secret  []byte
	counter uint64
}

// These are types of records (RFC 8446, section 5.1).
const (
	alertRecord     = 21
	handshakeRecord = 22
	dataRecord      = 23
)

// These are handshake messages and an alert (RFC 8446, sections 4.6 and 6.1).
// keyUpdateBoth also requests that the client updates its own key.
var (
	ticket        = append([]byte{4, 0, 0, 14}, 0, 0, 0, 60, 1, 2, 3, 4, 0, 0, 1, 'x', 0, 0)
	keyUpdate     = []byte{24, 0, 0, 1, 0}
	keyUpdateBoth = []byte{24, 0, 0, 1, 1}
	closeNotify   = []byte{1, 0}
)

// expand derives a key or an IV from the secret (HKDF-Expand-Label in RFC 8446, section 7.1).
func (s *sealer) expand(label string, length int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(append(append(info, byte(len(label))), label...), 0)
	out, err := hkdf.Expand(sha256.New, s.secret, string(info), length)
	if err != nil {
		s.t.Error(err)
	}
	return out
}

// record returns an encrypted record with a payload of this type. After the
// record of a key update, it updates the secret for the records that follow.
func (s *sealer) record(kind byte, payload []byte) []byte {
	block, err := aes.NewCipher(s.expand("key", 16))
	if err != nil {
		s.t.Error(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		s.t.Error(err)
	}
	nonce := s.expand("iv", 12)
	for i := range 8 {
		nonce[4+i] ^= byte(s.counter >> (56 - 8*i))
	}
	s.counter++
	plain := append(bytes.Clone(payload), kind)
	header := []byte{dataRecord, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(header[3:], uint16(len(plain)+aead.Overhead()))
	sealed := aead.Seal(header, nonce, plain, header)
	if kind == handshakeRecord && payload[0] == keyUpdate[0] {
		s.secret, s.counter = s.expand("traffic upd", sha256.Size), 0
	}
	return sealed
}

// sealingServer starts a server that does the TLS handshake of each connection and then calls f with the number of
// the connection. f reads requests from r and writes records of s to conn. sealingServer returns the server's
// address and the client's TLS configuration.
func sealingServer(
	t *testing.T, f func(n int, r *bufio.Reader, conn net.Conn, s *sealer),
) (address string, config *tls.Config) {
	t.Helper()
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	var count atomic.Int32
	url, _ := bytesServer(t, func(_ *bufio.Reader, conn net.Conn) {
		var keys bytes.Buffer
		secure := tls.Server(conn, &tls.Config{
			Certificates: trusted.TLS.Certificates, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
			KeyLogWriter: &keys,
		})
		if secure.Handshake() != nil {
			return
		}
		if suite := secure.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
			t.Errorf("cipher suite = %s, want TLS_AES_128_GCM_SHA256 for the records of this test", tls.CipherSuiteName(suite))
			return
		}
		s := &sealer{t: t}
		for line := range strings.Lines(keys.String()) {
			if fields := strings.Fields(line); fields[0] == "SERVER_TRAFFIC_SECRET_0" {
				s.secret, _ = hex.DecodeString(fields[2])
			}
		}
		f(int(count.Add(1)), bufio.NewReader(secure), conn, s)
	})
	return strings.TrimPrefix(url, "http://"), trusted.Client().Transport.(*http.Transport).TLSClientConfig
}

// sealedWrite returns encrypted bytes for a server to write.
type sealedWrite func(s *sealer) []byte

// afterResponse is what a server writes after a response.
type afterResponse struct {
	write    sealedWrite
	reusable bool // whether the client may still reuse the connection
}

// recordsAfter returns what servers write after a response, by descriptions.
func recordsAfter() map[string]afterResponse {
	otherResponse := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
	record := func(kind byte, payload []byte) sealedWrite {
		return func(s *sealer) []byte { return s.record(kind, payload) }
	}
	cut := func(n int) sealedWrite {
		return func(s *sealer) []byte {
			all := s.record(dataRecord, otherResponse)
			if n < 0 {
				n += len(all)
			}
			return all[:n]
		}
	}
	joined := func(a, b sealedWrite) sealedWrite { return func(s *sealer) []byte { return append(a(s), b(s)...) } }
	return map[string]afterResponse{
		"nothing":                        {func(*sealer) []byte { return nil }, true},
		"a ticket":                       {record(handshakeRecord, ticket), true},
		"two tickets":                    {joined(record(handshakeRecord, ticket), record(handshakeRecord, ticket)), true},
		"two tickets in a record":        {record(handshakeRecord, append(bytes.Clone(ticket), ticket...)), true},
		"a new key":                      {record(handshakeRecord, keyUpdate), true},
		"a new key and a key request":    {record(handshakeRecord, keyUpdateBoth), false},
		"an empty record":                {record(dataRecord, nil), true},
		"a response":                     {record(dataRecord, otherResponse), false},
		"a byte":                         {record(dataRecord, []byte("\n")), false},
		"a ticket and a response":        {joined(record(handshakeRecord, ticket), record(dataRecord, otherResponse)), false},
		"a byte of a record":             {cut(1), false},
		"the header of a record":         {cut(5), false},
		"a record without its last byte": {cut(-1), false},
		"a ticket and a partial record":  {joined(record(handshakeRecord, ticket), cut(9)), false},
		"a close_notify alert":           {record(alertRecord, closeNotify), false},
		"a record of an unknown type":    {record(99, []byte("x")), false},
	}
}

// TestBufferedTLSBytesAreNotTheNextResponse checks that bytes after a response never become the next response: in a
// record of their own, in a partial record, and in messages of TLS itself. A connection is reused only if nothing or
// only harmless messages of TLS, such as tickets, follow the response.
func TestBufferedTLSBytesAreNotTheNextResponse(t *testing.T) {
	after := recordsAfter()
	for framing, c := range map[string]struct{ method, response string }{
		"HEAD":    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-N: %d\r\n\r\n"},
		"204":     {"GET", "HTTP/1.1 204 No Content\r\nX-N: %d\r\n\r\n"},
		"304":     {"GET", "HTTP/1.1 304 Not Modified\r\nX-N: %d\r\n\r\n"},
		"length":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-N: %d\r\n\r\nright"},
		"chunked": {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-N: %d\r\n\r\n5\r\nright\r\n0\r\n\r\n"},
	} {
		for name, following := range after {
			for _, together := range []bool{true, false} { // whether these bytes are written together with the response
				if t.Failed() {
					return // one failure is enough, and further ones could each wait for their timeout
				}
				t.Run(fmt.Sprintf("%s/%s/together=%v", framing, name, together), func(t *testing.T) {
					read, written := make(chan struct{}), make(chan struct{}, 2)
					address, config := sealingServer(t, func(n int, r *bufio.Reader, conn net.Conn, s *sealer) {
						for i := range 2 {
							request, err := http.ReadRequest(r)
							if err != nil {
								return
							}
							out := s.record(dataRecord, fmt.Appendf(nil, strings.Replace(c.response, "%d", "%d%d", 1), n, i))
							if n == 1 && i == 0 {
								if !together {
									_, _ = conn.Write(out)
									<-read // otherwise both could arrive in one segment
									out = nil
								}
								out = append(out, following.write(s)...)
							}
							_, _ = conn.Write(out)
							written <- struct{}{}
							_ = request.Body.Close()
						}
						_, _ = io.Copy(io.Discard, conn)
					})
					client := newClient(t, Options{TLS: config, ResponseTimeout: 5 * time.Second})
					client.http1.set(address, true)
					// X-N is the number of the connection, and the number of the request on it. The second request is on
					// the first connection if this connection is reusable.
					for i, want := range []string{"10", map[bool]string{true: "11", false: "20"}[following.reusable]} {
						response, err := client.Send(request(t, t.Context(), c.method, "https://"+address), nil)
						if err != nil {
							t.Fatal(err)
						}
						all, err := io.ReadAll(response.Body)
						response.Body.Close()
						if err != nil || len(all) > 0 && string(all) != "right" {
							t.Errorf("response %d: body = %q, %v, want right or none", i, all, err)
						}
						if got := response.Header.Get("X-N"); got != want {
							t.Errorf("response %d: numbers of its connection and request = %q, want %q", i, got, want)
						}
						if i == 0 {
							close(read)
							<-written
						}
					}
				})
			}
		}
	}
}

// TestSocketReadDistinguishesEOFFromNoData checks that reading a socket at its end returns another
// error than reading one without data: otherwise TLS would read a closed socket again and again.
func TestSocketReadDistinguishesEOFFromNoData(t *testing.T) {
	sockets, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := asConn(sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the connection is only read
	var s idleChecker
	if err := s.prepare(conn); err != nil {
		t.Fatal(err)
	}
	s.wrapForTLS(conn)
	wantRead := func(wantN int, want error) {
		t.Helper()
		if n, err := s.below.readNonblocking(make([]byte, 2)); n != wantN || !errors.Is(err, want) ||
			(err == nil) != (want == nil) {
			t.Errorf("readNonblocking() = %d, %v, want %d, %v", n, err, wantN, want)
		}
	}
	wantRead(0, wouldBlockError{})
	if _, err := syscall.Write(sockets[1], []byte("abc")); err != nil {
		t.Fatal(err)
	}
	wantRead(2, nil)
	wantRead(1, nil)
	wantRead(0, wouldBlockError{})
	if err := syscall.Close(sockets[1]); err != nil {
		t.Fatal(err)
	}
	wantRead(0, io.EOF)
	_ = conn.Close()
	wantRead(0, net.ErrClosed)
}

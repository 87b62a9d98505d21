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

// sealer writes TLS 1.3 records of its own on a connection whose handshake is
// done: package tls decides alone how its server cuts records and when it sends
// what is not data.
type sealer struct {
	t       *testing.T
	secret  []byte
	counter uint64
}

// Kinds of records (RFC 8446, section 5.1), and of handshake messages.
const (
	alertRecord     = 21
	handshakeRecord = 22
	dataRecord      = 23
)

var (
	ticket        = append([]byte{4, 0, 0, 14}, 0, 0, 0, 60, 1, 2, 3, 4, 0, 0, 1, 'x', 0, 0)
	keyUpdate     = []byte{24, 0, 0, 1, 0}
	keyUpdateBoth = []byte{24, 0, 0, 1, 1}
	closeNotify   = []byte{1, 0}
)

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

// sealingServer does TLS handshakes and gives each connection to f, which reads
// requests and writes records. It answers the address.
func sealingServer(t *testing.T, f func(n int, r *bufio.Reader, conn net.Conn, s *sealer)) (address string, config *tls.Config) {
	t.Helper()
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	var count atomic.Int32
	url, _ := bytesServer(t, func(_ *bufio.Reader, conn net.Conn) {
		var keys bytes.Buffer
		secure := tls.Server(conn, &tls.Config{
			Certificates: trusted.TLS.Certificates, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, KeyLogWriter: &keys,
		})
		if secure.Handshake() != nil {
			return
		}
		if suite := secure.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
			t.Errorf("the suite is %s: this test's records are not for it", tls.CipherSuiteName(suite))
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

// TestNothingInsideTLSBecomesTheNextAnswer: what follows a response, be it in a
// record of its own, in half of one or in what TLS says for itself.
func TestNothingInsideTLSBecomesTheNextAnswer(t *testing.T) {
	wrong := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
	type write func(s *sealer) []byte
	record := func(kind byte, payload []byte) write {
		return func(s *sealer) []byte { return s.record(kind, payload) }
	}
	cut := func(n int) write {
		return func(s *sealer) []byte {
			all := s.record(dataRecord, wrong)
			if n < 0 {
				n += len(all)
			}
			return all[:n]
		}
	}
	both := func(a, b write) write { return func(s *sealer) []byte { return append(a(s), b(s)...) } }
	after := map[string]struct {
		write write
		again bool // the connection is good for another request
	}{
		"nothing":                   {func(*sealer) []byte { return nil }, true},
		"a ticket":                  {record(handshakeRecord, ticket), true},
		"two tickets":               {both(record(handshakeRecord, ticket), record(handshakeRecord, ticket)), true},
		"two tickets in a record":   {record(handshakeRecord, append(bytes.Clone(ticket), ticket...)), true},
		"a new key":                 {record(handshakeRecord, keyUpdate), true},
		"new keys asked of both":    {record(handshakeRecord, keyUpdateBoth), false},
		"an empty record":           {record(dataRecord, nil), true},
		"a response":                {record(dataRecord, wrong), false},
		"a byte":                    {record(dataRecord, []byte("\n")), false},
		"a ticket and a response":   {both(record(handshakeRecord, ticket), record(dataRecord, wrong)), false},
		"a byte of a record":        {cut(1), false},
		"the header of a record":    {cut(5), false},
		"a record but its end":      {cut(-1), false},
		"a ticket and half of more": {both(record(handshakeRecord, ticket), cut(9)), false},
		"goodbye":                   {record(alertRecord, closeNotify), false},
		"a record of no kind":       {record(99, []byte("x")), false},
	}
	for framing, c := range map[string]struct{ method, response string }{
		"HEAD":    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-N: %d\r\n\r\n"},
		"204":     {"GET", "HTTP/1.1 204 No Content\r\nX-N: %d\r\n\r\n"},
		"304":     {"GET", "HTTP/1.1 304 Not Modified\r\nX-N: %d\r\n\r\n"},
		"length":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-N: %d\r\n\r\nright"},
		"chunked": {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-N: %d\r\n\r\n5\r\nright\r\n0\r\n\r\n"},
	} {
		for name, then := range after {
			for _, together := range []bool{true, false} {
				if t.Failed() {
					return // one is enough, and others may wait as long
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
									<-read // otherwise it might still be one segment
									out = nil
								}
								out = append(out, then.write(s)...)
							}
							_, _ = conn.Write(out)
							written <- struct{}{}
							_ = request.Body.Close()
						}
						_, _ = io.Copy(io.Discard, conn)
					})
					client := newClient(t, Options{TLS: config, ResponseTimeout: 5 * time.Second})
					client.http1.set(address, true)
					for i, want := range []string{"10", map[bool]string{true: "11", false: "20"}[then.again]} {
						response, err := client.Send(request(t, t.Context(), c.method, "https://"+address), nil)
						if err != nil {
							t.Fatal(err)
						}
						all, err := io.ReadAll(response.Body)
						response.Body.Close()
						if err != nil || len(all) > 0 && string(all) != "right" {
							t.Errorf("answer %d: got %q, %v", i, all, err)
						}
						if got := response.Header.Get("X-N"); got != want {
							t.Errorf("answer %d is %q by connection and request, want %q", i, got, want)
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

// TestALookAtASocketTellsItsEndFromNothing: TLS above would look again and again.
func TestALookAtASocketTellsItsEndFromNothing(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := asConn(ends[0])
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close() //nolint:errcheck // it was only read
	var s silence
	if err := s.watch(ours); err != nil {
		t.Fatal(err)
	}
	s.under(ours)
	look := func(wantN int, want error) {
		t.Helper()
		if n, err := s.below.now(make([]byte, 2)); n != wantN || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("read %d bytes, %v", n, err)
		}
	}
	look(0, nothingError{})
	if _, err := syscall.Write(ends[1], []byte("abc")); err != nil {
		t.Fatal(err)
	}
	look(2, nil)
	look(1, nil)
	look(0, nothingError{})
	if err := syscall.Close(ends[1]); err != nil {
		t.Fatal(err)
	}
	look(0, io.EOF)
	_ = ours.Close()
	look(0, net.ErrClosed)
}

package upstream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestContentLengthMustBeOneNumber checks what an HTTP/2 upstream may declare as the length of its five-byte body.
// With two different lengths, an HTTP/1 client and a proxy before it could disagree on where the response ends.
func TestContentLengthMustBeOneNumber(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []string
		ok     bool
	}{
		{"no length", nil, true},
		{"one length", []string{"5"}, true},
		{"two lengths", []string{"5", "7"}, false},
		{"one length twice", []string{"5", "5"}, false},
		{"two lengths in one field", []string{"5, 7"}, false},
		{"a sign", []string{"+5"}, false},
		{"a negative length", []string{"-5"}, false},
		{"an empty length", []string{""}, false},
		{"a hexadecimal length", []string{"0x5"}, false},
		{"a length beyond 63 bits", []string{"9223372036854775808"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fields := []hpack.HeaderField{{Name: ":status", Value: "200"}}
			for _, value := range c.values {
				fields = append(fields, hpack.HeaderField{Name: "content-length", Value: value})
			}
			url, config := framesServer(t, fields, "hello")
			response, err := newClient(t, Options{TLS: config}).Send(request(t, t.Context(), http.MethodGet, url), nil)
			if !c.ok {
				if !errors.Is(err, errLength) {
					t.Errorf("Send() = %v, %v, want %v", response, err, errLength)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != "hello" {
				t.Errorf("Send(): body = %q, %v, want hello", body, err)
			}
		})
	}
}

// framesServer starts a server that responds to each HTTP/2 request with exactly these fields and this body.
func framesServer(t *testing.T, fields []hpack.HeaderField, body string) (url string, client *tls.Config) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
				return
			}
			framer := http2.NewFramer(conn, conn)
			_ = framer.WriteSettings()
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					return
				}
				head, ok := frame.(*http2.HeadersFrame)
				if !ok {
					continue
				}
				var block bytes.Buffer
				encoder := hpack.NewEncoder(&block)
				for _, field := range fields {
					_ = encoder.WriteField(field)
				}
				_ = framer.WriteHeaders(http2.HeadersFrameParam{
					StreamID: head.StreamID, BlockFragment: block.Bytes(),
					EndHeaders: true,
				})
				_ = framer.WriteData(head.StreamID, true, []byte(body))
			}
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, server.Client().Transport.(*http.Transport).TLSClientConfig
}

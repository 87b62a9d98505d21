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

// TestALengthIsOneNumber has upstreams of HTTP/2 say of five bytes how many they are. What says
// so in two ways would be two answers to a client of HTTP/1, and to the proxies before it.
func TestALengthIsOneNumber(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []string
		ok     bool
	}{
		{"none", nil, true},
		{"one", []string{"5"}, true},
		{"two", []string{"5", "7"}, false},
		{"one twice", []string{"5", "5"}, false},
		{"two in one", []string{"5, 7"}, false},
		{"a sign", []string{"+5"}, false},
		{"less than nothing", []string{"-5"}, false},
		{"nothing", []string{""}, false},
		{"another base", []string{"0x5"}, false},
		{"more than there are", []string{"9223372036854775808"}, false},
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
					t.Errorf("got %v, %v", response, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != "hello" {
				t.Errorf("got %q, %v", body, err)
			}
		})
	}
}

// framesServer answers a request by HTTP/2 with fields and a body as they are.
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
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: head.StreamID, BlockFragment: block.Bytes(), EndHeaders: true})
				_ = framer.WriteData(head.StreamID, true, []byte(body))
			}
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, server.Client().Transport.(*http.Transport).TLSClientConfig
}

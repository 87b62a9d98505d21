package tunnel_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
)

// TestHopByHopFieldsAreRemoved checks fields of responses, of 1xx responses and of
// responses that switch protocols. Hop-by-hop fields must not be forwarded, and a service
// must not be able to set the tunnel's fields. The agent must not add a content type.
func TestHopByHopFieldsAreRemoved(t *testing.T) {
	const listed = "Connection: x-listed%s\r\nX-Listed: 1\r\nKeep-Alive: 1\r\nGatewright-Tunnel-Failure: " +
		"late\r\nX-Kept: 1\r\n"
	// The connection stays open after the first response: if a service closes it without
	// notice, a request that was sent on it meanwhile cannot always be repeated.
	respond := func(w io.Writer, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			_, _ = fmt.Fprintf(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: odd\r\n"+listed+"\r\n", ", upgrade")
			return
		}
		_, _ = fmt.Fprintf(w, "HTTP/1.1 103 Early Hints\r\n"+
			listed+"\r\nHTTP/1.1 200 OK\r\n"+listed+"Content-Length: 6\r\n\r\n<html>", "", "")
	}
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		for err == nil {
			respond(conn, r)
			r, err = http.ReadRequest(buffered.Reader)
		}
	}))
	fx.run(fx.options())
	check := func(label string, h http.Header) {
		t.Helper()
		if h.Get("X-Kept") != "1" || h.Get("X-Listed")+h.Get("Keep-Alive")+h.Get("Content-Type") != "" ||
			strings.Contains(fmt.Sprint(h), "Gatewright-Tunnel") {
			t.Errorf("%s: header = %v, want X-Kept and no hop-by-hop or tunnel fields", label, h)
		}
	}
	hints := http.Header{}
	response, err := fx.do(http.MethodGet, "/", nil, func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
				maps.Copy(hints, header)
				return nil
			},
		}))
	})
	if got := readBody(t, response, err); got != "<html>" {
		t.Errorf("response body = %q, want \"<html>\"", got)
	}
	check("final response", response.Header)
	check("1xx response", hints)
	response, err = fx.do(http.MethodGet, "/", nil, func(r *http.Request) { r.Header.Set("Upgrade", "odd") })
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols ||
		!strings.EqualFold(response.Header.Get("Upgrade"), "odd") {
		t.Fatalf("response to an upgrade = %v, %v, want 101 with Upgrade odd", response, err)
	}
	_ = response.Body.Close()
	check("response with a switch of protocols", response.Header)
}

// TestTunnelFieldsCannotBeForged checks a client that sends one of the tunnel's fields: the request at the service
// must be the same as without the field.
func TestTunnelFieldsCannotBeForged(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, string(body), r.Header["Upgrade"], strings.Contains(fmt.Sprint(r.Header), "Gatewright-Tunnel"))
	}))
	fx.run(fx.options())
	for field, value := range map[string]string{
		"Service": "other", "Project": "other", "Environment": "other", "Upgrade": "odd", "Switched": "odd",
		"Failure": "late",
	} {
		response, err := fx.do(http.MethodPost, "/", strings.NewReader("text"), func(r *http.Request) {
			r.Header["Gatewright-Tunnel-"+field] = []string{value}
		})
		if got := readBody(t, response, err); got != "text[] false" {
			t.Errorf("request with a forged field %s: the service gets %s, want \"text[] false\"", field, got)
		}
	}
}

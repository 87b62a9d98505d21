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

// TestFieldsOfTheConnectionStayWithTheService, and those of the tunnel are nobody's to write:
// of answers, of hints before them and of answers that switch protocols. A type that the service has not
// given is guessed by nobody.
func TestFieldsOfTheConnectionStayWithTheService(t *testing.T) {
	const listed = "Connection: x-listed%s\r\nX-Listed: 1\r\nKeep-Alive: 1\r\nGatewright-Tunnel-Failure: late\r\nX-Kept: 1\r\n"
	// The connection stays open after the first answer: where a service closes it unannounced, a request that has
	// been sent on it meanwhile may not be sent again.
	answer := func(w io.Writer, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			_, _ = fmt.Fprintf(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: odd\r\n"+listed+"\r\n", ", upgrade")
			return
		}
		_, _ = fmt.Fprintf(w, "HTTP/1.1 103 Early Hints\r\n"+listed+"\r\nHTTP/1.1 200 OK\r\n"+listed+"Content-Length: 6\r\n\r\n<html>", "", "")
	}
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		for err == nil {
			answer(conn, r)
			r, err = http.ReadRequest(buffered.Reader)
		}
	}))
	w.run(w.options())
	check := func(what string, h http.Header) {
		t.Helper()
		if h.Get("X-Kept") != "1" || h.Get("X-Listed")+h.Get("Keep-Alive")+h.Get("Content-Type") != "" || strings.Contains(fmt.Sprint(h), "Gatewright-Tunnel") {
			t.Errorf("%s has %v", what, h)
		}
	}
	hints := http.Header{}
	response, err := w.ask(http.MethodGet, "/", nil, func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
				maps.Copy(hints, header)
				return nil
			},
		}))
	})
	if got := text(t, response, err); got != "<html>" {
		t.Errorf("it answers %q", got)
	}
	check("the answer", response.Header)
	check("the hint", hints)
	response, err = w.ask(http.MethodGet, "/", nil, func(r *http.Request) { r.Header.Set("Upgrade", "odd") })
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(response.Header.Get("Upgrade"), "odd") {
		t.Fatalf("it answers %v, %v", response, err)
	}
	_ = response.Body.Close()
	check("the switch", response.Header)
}

// TestFieldsOfTheTunnelAreNobodysToWrite has a client write all of them: the request is what it is
// without them.
func TestFieldsOfTheTunnelAreNobodysToWrite(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, string(body), r.Header["Upgrade"], strings.Contains(fmt.Sprint(r.Header), "Gatewright-Tunnel"))
	}))
	w.run(w.options())
	for field, value := range map[string]string{
		"Service": "other", "Project": "other", "Environment": "other", "Upgrade": "odd", "Switched": "odd", "Failure": "late",
	} {
		response, err := w.ask(http.MethodPost, "/", strings.NewReader("text"), func(r *http.Request) {
			r.Header["Gatewright-Tunnel-"+field] = []string{value}
		})
		if got := text(t, response, err); got != "text[] false" {
			t.Errorf("with a %s of the client's the service gets %s", field, got)
		}
	}
}

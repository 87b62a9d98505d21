package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// bcryptOfRight is a hash of the password "right".
const bcryptOfRight = "$2y$05$WixdUiemUrmusXXNReV8qunp1JNGRkaGrh/asl1inxG2CcRcRMYie"

// callerOptions returns options of the policies that check passwords and signatures, and count what callers do.
func callerOptions() []namedOptions {
	users := func(users string) string { return `{"users":[` + users + `]}` }
	hash := func(text string) namedOptions {
		return namedOptions{"basic-auth-inbound", users(`{"name":"ann","passwordHash":"` + text + `"}`)}
	}
	argon := func(parameters, salt string) namedOptions {
		return hash("$argon2id$v=19$" + parameters + "$" + salt + "$c29tZXNhbHRzb21lc2FsdA")
	}
	const salt = "c29tZXNhbHRzb21lc2FsdA"
	return []namedOptions{
		hash(bcryptOfRight),
		argon("m=65536,t=3,p=4", salt),
		{"basic-auth-inbound", `{}`},
		{"basic-auth-inbound", `{"users":[],"realm":"a\"b","maxFailuresPerMinute":1}`},
		{"basic-auth-inbound", users(`{"name":"a:b","passwordHash":""},{"name":"","passwordHash":"secret"},{"pass":1},` +
			`{"name":"a\n","passwordHash":"` + bcryptOfRight + `"},{"name":"a","passwordHash":"` + bcryptOfRight +
			`"},{"name":"a","passwordHash":"` + bcryptOfRight + `"}`)},
		hash("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
		hash("$apr1$TqI9WECO$LHZB2DqRlk9nObiB6vJG9."),
		hash(strings.Replace(bcryptOfRight, "$05$", "$31$", 1)),
		hash(strings.Replace(bcryptOfRight, "$05$", "$04$", 1)),
		hash(strings.Replace(bcryptOfRight, "$2y$", "$2x$", 1)),
		hash(bcryptOfRight[:59]),
		hash(bcryptOfRight[:59] + "!"),
		hash("$2"),
		hash("$argon2i$v=19$m=65536,t=3,p=4$" + salt + "$" + salt),
		hash("$argon2id$v=16$m=65536,t=3,p=4$" + salt + "$" + salt),
		hash("$argon2id$v=19$m=65536,t=3,p=4$" + salt),
		argon("m=4294967295,t=1,p=1", salt),
		argon("m=99999999999,t=1,p=1", salt),
		argon("m=8,t=1,p=1", salt),
		argon("m=65536,t=0,p=1", salt),
		argon("m=65536,t=11,p=1", salt),
		argon("m=65536,t=1,p=255", salt),
		argon("t=1,m=65536,p=1", salt),
		argon("m=65536,t=1,p=1", "c2FsdA"),
		argon("m=65536,t=1,p=1", "c2FsdA=="),
	}
}

// TestPasswordsAreNotForwarded checks that the upstream gets the user and not the password, wherever the project sends
// the header.
func TestPasswordsAreNotForwarded(t *testing.T) {
	a := artifact(route("GET /x", rewrite(serve(t, headers).URL+"/${request.user.sub}"), "copy", "basic"))
	declare(a, "basic", "basic-auth-inbound",
		map[string]any{"users": []any{map[string]any{"name": "ann", "passwordHash": bcryptOfRight}}})
	declare(a, "copy", "set-headers-inbound",
		map[string]any{"headers": []any{map[string]any{"name": "X-Copy", "value": "${headers.authorization}"}}})
	h := newFixture(t, a)
	send := func(user *url.Userinfo) *http.Response {
		return h.do(t, "GET", "/x", func(r *http.Request) {
			password, _ := user.Password()
			r.SetBasicAuth(user.Username(), password)
		})
	}
	response := send(url.UserPassword("ann", "right"))
	if got := response.Header.Get("X-Path"); response.StatusCode != http.StatusOK || got != "/ann" {
		t.Fatalf("GET /x: status = %d, path = %s, want 200 and /ann", response.StatusCode, got)
	}
	for name := range headersOf(t, response) {
		if name == "Authorization" || name == "X-Copy" {
			t.Errorf("GET /x: the upstream got %s, want neither the header nor its copy", name)
		}
	}
	response = send(url.UserPassword("ann", "wrong"))
	if got := response.Header.Get("Www-Authenticate"); response.StatusCode != http.StatusUnauthorized ||
		!strings.HasPrefix(got, "Basic realm=") {
		t.Errorf("GET /x with a wrong password: status = %d, WWW-Authenticate = %q, want 401 and Basic",
			response.StatusCode, got)
	}
	if text := body(t, response); strings.Contains(text, "wrong\"") || strings.Contains(h.log.String(), "right") {
		t.Errorf("GET /x with a wrong password: body = %s, want no password", text)
	}
}

// TestRefusedPasswordsReadNoBody checks that a request with a wrong password is refused although its body never arrives.
func TestRefusedPasswordsReadNoBody(t *testing.T) {
	a := artifact(route("POST /x", rewrite(serve(t, headers).URL), "basic"))
	declare(a, "basic", "basic-auth-inbound",
		map[string]any{"users": []any{map[string]any{"name": "ann", "passwordHash": bcryptOfRight}}})
	h := newFixture(t, a)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100\r\n"+
		"Authorization: Basic YW5uOndyb25n\r\n\r\nhalf")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("POST /x with half a body: error = %v, want a response", err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST /x with half a body: status = %d, want 401", response.StatusCode)
	}
}

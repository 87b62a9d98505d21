package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
)

// attempt is an attack on the gateway.
type attempt struct {
	class, name string
	// site is which of the two projects it goes to: "" for the one of OpenAPI
	// paths, or patterns.
	site string
	// parts are what the client writes, {host} and {mark} replaced;
	// methods are those of the requests in it, GET alone without any.
	parts   []string
	methods []string
	// want is what has to come of it: what look tells, or outcome without one.
	want string
	look func(conversation, []arrival) string
	// ours is set where peers have nothing to compare: the attack is on what the
	// product does and they do not.
	ours bool
}

// patterns is the site whose routes are URL patterns.
const patterns = "patterns"

// target is something that serves the two sites in front of the upstream.
type target struct {
	name string
	// address is where to dial, and host the name that stands for a site.
	address func(site string) string
	host    func(site string) string
}

// at once so many attacks run; one that waits holds no other up.
const atOnce = 16

// try makes the attempts on a target.
func try(ctx context.Context, t target, attempts []attempt, u *upstream) ([]result, error) {
	results := make([]result, len(attempts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, a := range attempts {
		group.Go(func() error {
			mark := fmt.Sprintf("%s-%d", t.name, i)
			fill := strings.NewReplacer("{host}", t.host(a.site), "{mark}", mark)
			parts := make([]string, len(a.parts))
			for k, part := range a.parts {
				parts[k] = fill.Replace(part)
			}
			methods := a.methods
			if len(methods) == 0 {
				methods = []string{http.MethodGet}
			}
			c, err := talk(ctx, t.address(a.site), parts, methods)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, a.name, err)
			}
			look := a.look
			if look == nil {
				look = outcome
			}
			results[i] = result{class: a.class, name: a.name, got: look(c, u.arrivals(mark)), want: a.want}
			return nil
		})
	}
	return results, group.Wait()
}

// outcome says what came of the first request: its status, and what the upstream
// was asked for.
func outcome(c conversation, seen []arrival) string {
	out := "cut off"
	if len(c.answers) > 0 {
		out = fmt.Sprint(c.answers[0].status)
	}
	for _, a := range seen {
		if path := served(a.Target); path == "/admin" || strings.HasPrefix(path, "/admin/") {
			return "reaches " + path
		}
	}
	if len(seen) > 0 {
		path, _, _ := strings.Cut(seen[0].Target, "?")
		out += ", passed on as " + path
	}
	return out
}

// status says the first answer's status, and that the upstream was asked.
func status(c conversation, _ []arrival) string {
	if len(c.answers) == 0 {
		return "cut off"
	}
	return fmt.Sprint(c.answers[0].status)
}

// ended says the status, and whether the connection ended with it.
func ended(c conversation, _ []arrival) string {
	if len(c.answers) == 0 {
		return "cut off"
	}
	if c.cut {
		return fmt.Sprintf("%d, closed", c.answers[0].status)
	}
	return fmt.Sprintf("%d, goes on", c.answers[0].status)
}

// waited says the status, and whether a body was asked for.
func waited(c conversation, _ []arrival) string {
	if len(c.answers) == 0 {
		return "cut off"
	}
	if len(c.answers[0].informational) > 0 {
		return "a 100"
	}
	return fmt.Sprintf("%d, no 100", c.answers[0].status)
}

// problem says the status and whether it is told as a problem document.
func problem(c conversation, _ []arrival) string {
	if len(c.answers) == 0 {
		return "cut off"
	}
	first := c.answers[0]
	if first.header.Get("Content-Type") == "application/problem+json" && strings.Contains(first.body, `"detail"`) {
		return fmt.Sprintf("%d problem", first.status)
	}
	return fmt.Sprint(first.status)
}

// sent says what the upstream got in a field, or in a trailer.
func sent(name string) func(conversation, []arrival) string {
	return func(c conversation, seen []arrival) string {
		if len(seen) == 0 {
			return status(c, seen)
		}
		values := append(seen[0].Header[http.CanonicalHeaderKey(name)], seen[0].Trailer[http.CanonicalHeaderKey(name)]...)
		if len(values) == 0 {
			return "not passed on"
		}
		return "passed on"
	}
}

// received says whether the client got a field.
func received(name string) func(conversation, []arrival) string {
	return func(c conversation, seen []arrival) string {
		if len(c.answers) == 0 || c.answers[0].status != http.StatusOK {
			return status(c, seen)
		}
		if value := c.answers[0].header.Get(name); value != "" {
			return "the client gets it"
		}
		return "the client does not get it"
	}
}

// own says whether a second caller, on a connection of its own, gets the
// answer to its own question.
func own(c conversation, seen []arrival) string {
	for i, a := range c.answers {
		if i > 0 && a.body == "foisted" {
			return "the next caller gets the foisted one"
		}
	}
	if len(c.answers) < 2 {
		return "the next caller gets none"
	}
	return "the next caller gets its own"
}

// path is an attack by nothing but a path.
func path(name, site, target, want string) attempt {
	return attempt{class: "paths", name: name, site: site, parts: []string{request("GET", target)}, want: want}
}

// answered is an attack by an upstream: what it answers decides what the next
// caller gets.
func answered(by, method string) attempt {
	target := "/echo?answer=" + strings.ReplaceAll(by, " ", "+")
	return attempt{
		class: "connections", name: "the upstream sends " + by, parts: []string{request(method, target), request("GET", "/echo")},
		methods: []string{method, "GET"}, want: "the next caller gets its own", look: own,
	}
}

// field is an attack by fields of a header.
func field(name, want string, look func(conversation, []arrival) string, lines ...string) attempt {
	return attempt{class: "headers", name: name, parts: []string{request("GET", "/echo", lines...)}, want: want, look: look}
}

// cases are all attempts on the gateway. Both sites ask for a key at /admin and
// for none elsewhere.
func cases() []attempt {
	raw := func(class, name, want string, look func(conversation, []arrival) string, parts ...string) attempt {
		return attempt{class: class, name: name, parts: parts, want: want, look: look}
	}
	ours := func(a attempt) attempt {
		a.ours = true
		return a
	}
	named := func(a attempt, name string) attempt {
		a.name = name
		return a
	}
	chunked := "POST /echo HTTP/1.1\r\nHost: {host}\r\nAttack: {mark}\r\nTransfer-Encoding: chunked\r\n"
	all := []attempt{
		path("`/v1/..%2Fadmin`", "", "/v1/..%2Fadmin", "400"),
		path("`/v1/%2e%2e%2fadmin`", "", "/v1/%2e%2e%2fadmin", "400"),
		path("`/v1/..%5Cadmin`", "", "/v1/..%5Cadmin", "400"),
		path("`/v1/..\\admin`", "", `/v1/..\admin`, "400"),
		path("`/v1/..;/admin`", "", "/v1/..;/admin", "400"),
		path("`/v1/..;x=1%2Fadmin`", "", "/v1/..;x=1%2Fadmin", "400"),
		path("`/v1/a%00`", "", "/v1/a%00", "400"),
		path("`/v1/../admin`", "", "/v1/../admin", "401"),
		path("`/v1/%2e%2E/admin`", "", "/v1/%2e%2E/admin", "401"),
		path("`//admin`", "", "//admin", "401"),
		path("`/v1//../admin`", "", "/v1//../admin", "401"),
		path("`/%61dmin`", "", "/%61dmin", "401"),
		path("`/v1/a\"%2F..%2F..%2Fadmin`", "", `/v1/a"%2F..%2F..%2Fadmin`, "400"),
		path("`/v1/%252e%252e%252fadmin`, escaped twice", "", "/v1/%252e%252e%252fadmin", "200, passed on as /v1/%252e%252e%252fadmin"),
		path("`/v1/feature%2Fx`, a slash in a value", "", "/v1/feature%2Fx", "200, passed on as /v1/feature%2Fx"),
		ours(path("`/files/..%2Fadmin` where `${params.name}` goes upstream", "", "/files/..%2Fadmin", "400")),
		ours(path("`/files/%2e%2e` where `${params.name}` goes upstream", "", "/files/%2e%2e", "404")),
		ours(path("an address that ends in `${query.id}`, without an id", "", "/by-id", "400")),
		ours(path("the same with an id of `;`, of which an upstream leaves nothing", "", "/by-id?id=%3B", "400")),
		path("`/admin%2F` beside an open `/{any}`", "", "/admin%2F", "400"),
		path("`/admin%5C` beside an open `/{any}`", "", "/admin%5C", "400"),
		path("`/admin;%2F` beside an open `/{any}`", "", "/admin;%2F", "400"),
		path("`/v1/%F8%80%80%80%AE`, a dot in five bytes", "", "/v1/%F8%80%80%80%AE", "400"),
		ours(attempt{class: "paths", name: "`DELETE /admin` beside an open `DELETE /{any}`", parts: []string{request("DELETE", "/admin")}, methods: []string{"DELETE"}, want: "405"}),
		path("`/%61dmin/x` against `/admin/*`", patterns, "/%61dmin/x", "401"),
		path("`//admin/x` against `/admin/*`", patterns, "//admin/x", "401"),
		path("`/admin%2Fx` against `/admin/*`", patterns, "/admin%2Fx", "400"),
		path("`/public/..%2Fadmin/x` against `/admin/*`", patterns, "/public/..%2Fadmin/x", "400"),
		path("`/public\"/../admin/x` against `/admin/*`", patterns, `/public"/../admin/x`, "401"),
		path("`/public/..;/admin/x` against `/admin/*`", patterns, "/public/..;/admin/x", "400"),

		answered("more than it said", "GET"),
		answered("a body to HEAD", "HEAD"),
		answered("a body with 204", "GET"),
		answered("more after the chunks", "GET"),
		raw("connections", "the upstream answers with status 042", "502", status, request("GET", "/echo?answer=status+042")),
		raw("connections", "the upstream answers with status 999", "502", status, request("GET", "/echo?answer=status+999")),
		raw("connections", "the upstream says two lengths", "502", status, request("GET", "/echo?answer=two+lengths")),
		raw("connections", "the upstream sends a header of 1 MB", "502", status, request("GET", "/echo?answer=a+header+without+limit")),

		raw("upgrades", "`Upgrade: h2c` to an upstream that takes it", "502", status,
			request("GET", "/echo?answer=a+switch+of+protocols", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")),
		raw("upgrades", "`Upgrade: websocket`, which is meant to pass", "101", status,
			request("GET", "/echo?answer=a+switch+of+protocols", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")),
		raw("upgrades", "an upstream that switches unasked", "502", status, request("GET", "/echo?answer=a+switch+of+protocols")),
		raw("upgrades", "`Upgrade: websocket` from HTTP/1.0", "not passed on", sent("Upgrade"),
			"GET /echo HTTP/1.0\r\nHost: {host}\r\nAttack: {mark}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),

		raw("headers", "`Content-Length` with `Transfer-Encoding`", "400, closed", ended, chunked+"Content-Length: 5\r\n\r\n0\r\n\r\n"),
		{class: "headers", name: "the same in the second of two requests", want: "400, closed", methods: []string{"GET", "POST"}, look: func(c conversation, seen []arrival) string {
			if len(c.answers) < 2 {
				return "no second answer"
			}
			return ended(conversation{answers: c.answers[1:], cut: c.cut}, seen)
		}, parts: []string{request("GET", "/echo") + chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n"}},
		raw("headers", "two different `Content-Length`", "400", status, request("POST", "/echo", "Content-Length: 5", "Content-Length: 6")+"hello!"),
		raw("headers", "`Transfer-Encoding: xchunked`", "501", status, request("POST", "/echo", "Transfer-Encoding: xchunked")+"0\r\n\r\n"),
		raw("headers", "a space before the colon", "400", status, request("GET", "/echo", "Accept : */*")),
		raw("headers", "201 fields", "431 problem", problem, request("GET", "/echo", strings.Split(strings.Repeat("X: 1\n", 199), "\n")[:199]...)),
		raw("headers", "a header of 70 KB", "431 problem", problem, request("GET", "/echo", "X: "+strings.Repeat("x", 70<<10))),
		raw("headers", "800 KB of names in `Connection`", "431 problem", problem, request("GET", "/echo", "Connection: "+strings.Repeat("a,", 400<<10))),
		field("`Connection: X-Forwarded-For`, so that the proxy's own is dropped", "the upstream gets it", func(c conversation, seen []arrival) string {
			if got := sent("X-Forwarded-For")(c, seen); got != "passed on" {
				return "the upstream does not get it"
			}
			return "the upstream gets it"
		}, "Connection: X-Forwarded-For"),
		field("`X_Forwarded_For`, which some read as `X-Forwarded-For`", "not passed on", sent("X_forwarded_for"), "X_Forwarded_For: 10.0.0.1"),
		field("`X-Forwarded-For.`, with a dot behind it", "not passed on", sent("X-Forwarded-For."), "X-Forwarded-For.: 10.0.0.1"),
		field("a client's own `Forwarded`", "not passed on", sent("Forwarded"), "Forwarded: for=10.0.0.1"),
		field("`Proxy-Authorization`", "not passed on", sent("Proxy-Authorization"), "Proxy-Authorization: Basic eDp5"),
		raw("headers", "a trailer `X-Forwarded-For`", "not passed on", func(c conversation, seen []arrival) string {
			if len(seen) == 0 {
				return status(c, seen)
			}
			if len(seen[0].Trailer["X-Forwarded-For"]) > 0 {
				return "passed on"
			}
			return "not passed on"
		}, chunked+"Trailer: X-Forwarded-For\r\n\r\n2\r\nhi\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"),
		raw("headers", "`Host` with more behind its port", "400", status, "GET /echo HTTP/1.1\r\nHost: {host}x\r\nAttack: {mark}\r\n\r\n"),
		raw("headers", "`Host` with a path", "400", status, "GET /echo HTTP/1.1\r\nHost: {host}/x\r\nAttack: {mark}\r\n\r\n"),
		raw("headers", "two `Host`", "400", status, "GET /echo HTTP/1.1\r\nHost: {host}\r\nHost: other\r\nAttack: {mark}\r\n\r\n"),
		raw("headers", "a 103 to a client of HTTP/1.0", "200 alone", func(c conversation, seen []arrival) string {
			if len(c.answers) == 1 && len(c.answers[0].informational) == 0 {
				return fmt.Sprintf("%d alone", c.answers[0].status)
			}
			return "the 103 too"
		}, "GET /echo?answer=an+early+hint HTTP/1.0\r\nHost: {host}\r\nAttack: {mark}\r\n\r\n"),
		raw("headers", "a response's field that its `Connection` lists", "the client does not get it", received("X-Internal"), request("GET", "/echo?answer=a+field+for+one+hop")),
		raw("headers", "a response without content type", "the client does not get it", received("Content-Type"), request("GET", "/echo?answer=no+content+type")),
		raw("headers", "a body that reads like a server's own refusal", "passed on as it is", func(c conversation, seen []arrival) string {
			if len(c.answers) == 1 && c.answers[0].body == badRequest {
				return "passed on as it is"
			}
			return "changed"
		}, request("GET", "/echo?answer=what+a+server+may+say")),
		raw("headers", "`Expect: something`", "417 problem", problem, request("GET", "/echo", "Expect: something")),
		raw("headers", "a bare `%` in the path", "400 problem", problem, request("GET", "/v1/100%")),
	}
	for _, c := range []struct{ name, line string }{
		{"a key of ours as `bearer`", "Authorization: bearer {key}"},
		{"a key of ours as `Basic`", "Authorization: Basic {key}"},
		{"a key of ours without a scheme", "Authorization: {key}"},
		{"a key of ours right behind a word", "Authorization: Token{key}"},
		{"a key of ours beside another credential", "Authorization: Basic eDp5\r\nAuthorization: Bearer {key}"},
	} {
		a := raw("headers", c.name+", where none is needed", "the upstream does not see it", func(_ conversation, seen []arrival) string {
			if len(seen) == 0 {
				return "the upstream does not see it"
			}
			if strings.Contains(fmt.Sprint(seen[0].Header), "gwk_") {
				return "the upstream sees it"
			}
			return "the upstream does not see it"
		}, request("GET", "/sometimes", strings.ReplaceAll(c.line, "{key}", madeUpKey)))
		all = append(all, ours(a))
	}
	return append(all,
		raw("loops", "a request that a gateway of ours has passed on eight times", "508", status, request("GET", "/echo", "Via: "+strings.Repeat("1.1 gatewright, ", 8))),
		ours(raw("loops", "a key of ours in `Via`: our own member of it", "passed on", func(_ conversation, seen []arrival) string {
			if len(seen) == 0 || !strings.HasSuffix(strings.Join(seen[0].Header["Via"], ","), "1.1 gatewright") {
				return "not passed on"
			}
			return "passed on"
		}, request("GET", "/echo", "Via: 1.1 "+madeUpKey))),
		raw("slow clients", "a body of 1 GB announced and not sent, to what is refused", "401, closed", ended, request("POST", "/admin", "Content-Length: 1000000000")),
		raw("slow clients", "`Expect: 100-continue` to what is refused", "401, no 100", waited, request("POST", "/admin", "Content-Length: 10", "Expect: 100-continue")),
		ours(raw("redirects", "one that is followed to another origin", "it gets none of the caller's", func(_ conversation, seen []arrival) string {
			if len(seen) < 2 {
				return "not followed"
			}
			for _, name := range []string{"Cookie", "Authorization", "Referer", "X-Secret"} {
				if seen[1].Header.Get(name) != "" {
					return "it gets " + name
				}
			}
			return "it gets none of the caller's"
		}, request("GET", "/followed?answer=a+redirect+elsewhere", "Cookie: a=b", "Authorization: Basic eDp5", "Referer: http://a/?secret", "X-Secret: 1"))),
		ours(named(raw("addresses", "", "502", status, request("GET", "/metadata/0")), "an upstream at 169.254.169.254, private ones allowed")),
		ours(named(raw("addresses", "", "502", status, request("GET", "/metadata/1")), "an upstream at fd00:ec2::254, private ones allowed")),
		ours(named(raw("addresses", "", "502", status, request("GET", "/metadata/2")), "an upstream at 100.100.100.200, private ones allowed")),
	)
}

// madeUpKey has the form of a consumer's key and madeUpAccountKey that of an
// account's; they are nobody's.
const (
	madeUpKey        = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	madeUpAccountKey = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_73ffd956"
)

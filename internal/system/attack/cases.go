package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// attempt is an attack that writes a text on one connection, to the gateway or to the management API.
type attempt struct {
	class, name string
	// site is the project that receives the attack: "" for the project with OpenAPI paths, or patterns.
	site string
	// parts is the text that the client writes, in parts with pauses between them. Its placeholders {host} and {mark}
	// are replaced. methods are the methods of the requests in the text; none means one GET.
	parts   []string
	methods []string
	// want is the expected result of evaluate, or of outcome if evaluate is nil.
	want     string
	evaluate func(conversation, []arrival) string
	// productOnly means that the attack is on a feature that peers do not have, so that it cannot be compared.
	productOnly bool
}

// patterns is the site whose routes are URL patterns.
const patterns = "patterns"

// target is the server under attack: a proxy that serves the two sites in front of the upstream, or the management API.
type target struct {
	name string
	// address returns the address to dial for a site, and host returns the site's host name.
	address func(site string) string
	host    func(site string) string
}

// concurrency is the number of concurrent attacks. Most attacks wait, and do not delay the others.
const concurrency = 16

// try makes the attempts on a target, and returns their results in the same order.
func try(ctx context.Context, t target, attempts []attempt, u *upstream) ([]result, error) {
	results := make([]result, len(attempts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i, a := range attempts {
		group.Go(func() error {
			mark := fmt.Sprintf("%s-%d", t.name, i)
			replacer := strings.NewReplacer("{host}", t.host(a.site), "{mark}", mark)
			parts := make([]string, len(a.parts))
			for k, part := range a.parts {
				parts[k] = replacer.Replace(part)
			}
			methods := a.methods
			if len(methods) == 0 {
				methods = []string{http.MethodGet}
			}
			c, err := converse(ctx, t.address(a.site), parts, methods)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, a.name, err)
			}
			evaluate := a.evaluate
			if evaluate == nil {
				evaluate = outcome
			}
			results[i] = result{class: a.class, name: a.name, got: evaluate(c, u.arrivals(mark)), want: a.want}
			return nil
		})
	}
	return results, group.Wait()
}

// outcome returns the status of the first response, and the path that was forwarded to the upstream. If a permissive
// upstream would serve /admin for a forwarded path, outcome returns only that fact.
func outcome(c conversation, arrivals []arrival) string {
	out := "cut off"
	if len(c.responses) > 0 {
		out = fmt.Sprint(c.responses[0].status)
	}
	for _, a := range arrivals {
		if path := servedPath(a.Target); path == "/admin" || strings.HasPrefix(path, "/admin/") {
			return "reaches " + path
		}
	}
	if len(arrivals) > 0 {
		path, _, _ := strings.Cut(arrivals[0].Target, "?")
		out += ", passed on as " + path
	}
	return out
}

// status returns the status of the first response.
func status(c conversation, _ []arrival) string {
	if len(c.responses) == 0 {
		return "cut off"
	}
	return fmt.Sprint(c.responses[0].status)
}

// statusAndClose returns the status of the first response, and whether the connection ended after it.
func statusAndClose(c conversation, _ []arrival) string {
	if len(c.responses) == 0 {
		return "cut off"
	}
	if c.disconnected {
		return fmt.Sprintf("%d, closed", c.responses[0].status)
	}
	return fmt.Sprintf("%d, goes on", c.responses[0].status)
}

// statusAndContinue returns "a 100" if a response with status 100 requested the body, and otherwise the status of the
// first response.
func statusAndContinue(c conversation, _ []arrival) string {
	if len(c.responses) == 0 {
		return "cut off"
	}
	if len(c.responses[0].informational) > 0 {
		return "a 100"
	}
	return fmt.Sprintf("%d, no 100", c.responses[0].status)
}

// problem returns the status of the first response, and whether its body is a problem document.
func problem(c conversation, _ []arrival) string {
	if len(c.responses) == 0 {
		return "cut off"
	}
	first := c.responses[0]
	if first.header.Get("Content-Type") == "application/problem+json" && strings.Contains(first.body, `"detail"`) {
		return fmt.Sprintf("%d problem", first.status)
	}
	return fmt.Sprint(first.status)
}

// receivedUpstream returns a function that reports whether the upstream received a header field or trailer with this
// name. If no request arrived there, the function returns the status of the response.
func receivedUpstream(name string) func(conversation, []arrival) string {
	return func(c conversation, arrivals []arrival) string {
		if len(arrivals) == 0 {
			return status(c, arrivals)
		}
		values := append(arrivals[0].Header[http.CanonicalHeaderKey(name)],
			arrivals[0].Trailer[http.CanonicalHeaderKey(name)]...)
		if len(values) == 0 {
			return "not passed on"
		}
		return "passed on"
	}
}

// receivedByClient returns a function that reports whether the client received a header field with this name. If the
// response does not have the status 200, the function returns the status.
func receivedByClient(name string) func(conversation, []arrival) string {
	return func(c conversation, arrivals []arrival) string {
		if len(c.responses) == 0 || c.responses[0].status != http.StatusOK {
			return status(c, arrivals)
		}
		if value := c.responses[0].header.Get(name); value != "" {
			return "the client gets it"
		}
		return "the client does not get it"
	}
}

// nextResponse says which response the second request receives: its own, the response "foisted" that the upstream has
// added to the first one, or none.
func nextResponse(c conversation, arrivals []arrival) string {
	for i, a := range c.responses {
		if i > 0 && a.body == "foisted" {
			return "the next caller gets the foisted one"
		}
	}
	if len(c.responses) < 2 {
		return "the next caller gets none"
	}
	return "the next caller gets its own"
}

// pathAttack returns an attack that consists only of a path.
func pathAttack(name, site, target, want string) attempt {
	return attempt{class: "paths", name: name, site: site, parts: []string{request("GET", target)}, want: want}
}

// upstreamAttack returns an attack by an upstream, whose response could reach the next caller.
func upstreamAttack(response, method string) attempt {
	target := "/echo?answer=" + strings.ReplaceAll(response, " ", "+")
	return attempt{
		class: "connections", name: "the upstream sends " + response,
		parts:   []string{request(method, target), request("GET", "/echo")},
		methods: []string{method, "GET"}, want: "the next caller gets its own", evaluate: nextResponse,
	}
}

// fieldAttack returns an attack by header fields.
func fieldAttack(name, want string, evaluate func(conversation, []arrival) string, lines ...string) attempt {
	return attempt{
		class: "headers", name: name, parts: []string{request("GET", "/echo", lines...)}, want: want,
		evaluate: evaluate,
	}
}

// cases returns all attacks on the gateway. Both sites require a key at /admin and nowhere else.
func cases() []attempt {
	return slices.Concat(
		pathCases(), connectionCases(), upgradeCases(),
		framingCases(), fieldCases(), responseCases(), refusedCases(), keyCases(), // the class headers
		otherCases(),
	)
}

// rawAttack returns an attack with the text that the client writes.
func rawAttack(class, name, want string, evaluate func(conversation, []arrival) string, parts ...string) attempt {
	return attempt{class: class, name: name, parts: parts, want: want, evaluate: evaluate}
}

// productAttack returns an attack on a feature that only the product has.
func productAttack(a attempt) attempt {
	a.productOnly = true
	return a
}

// chunked is the beginning of a request with a body in chunks. More header fields can follow.
const chunked = "POST /echo HTTP/1.1\r\nHost: {host}\r\nAttack: {mark}\r\nTransfer-Encoding: chunked\r\n"

// pathCases returns spellings of a path that could bypass a key check.
func pathCases() []attempt {
	return []attempt{
		pathAttack("`/v1/..%2Fadmin`", "", "/v1/..%2Fadmin", "400"),
		pathAttack("`/v1/%2e%2e%2fadmin`", "", "/v1/%2e%2e%2fadmin", "400"),
		pathAttack("`/v1/..%5Cadmin`", "", "/v1/..%5Cadmin", "400"),
		pathAttack("`/v1/..\\admin`", "", `/v1/..\admin`, "400"),
		pathAttack("`/v1/..;/admin`", "", "/v1/..;/admin", "400"),
		pathAttack("`/v1/..;x=1%2Fadmin`", "", "/v1/..;x=1%2Fadmin", "400"),
		pathAttack("`/v1/a%00`", "", "/v1/a%00", "400"),
		pathAttack("`/v1/../admin`", "", "/v1/../admin", "401"),
		pathAttack("`/v1/%2e%2E/admin`", "", "/v1/%2e%2E/admin", "401"),
		pathAttack("`//admin`", "", "//admin", "401"),
		pathAttack("`/v1//../admin`", "", "/v1//../admin", "401"),
		pathAttack("`/%61dmin`", "", "/%61dmin", "401"),
		pathAttack("`/v1/a\"%2F..%2F..%2Fadmin`", "", `/v1/a"%2F..%2F..%2Fadmin`, "400"),
		pathAttack("`/v1/%252e%252e%252fadmin`, escaped twice", "", "/v1/%252e%252e%252fadmin",
			"200, passed on as /v1/%252e%252e%252fadmin"),
		pathAttack("`/v1/feature%2Fx`, a slash in a value", "", "/v1/feature%2Fx", "200, passed on as /v1/feature%2Fx"),
		productAttack(pathAttack("`/files/..%2Fadmin` where `${params.name}` goes upstream", "", "/files/..%2Fadmin", "400")),
		productAttack(pathAttack("`/files/%2e%2e` where `${params.name}` goes upstream", "", "/files/%2e%2e", "404")),
		productAttack(pathAttack("an address that ends in `${query.id}`, without an id", "", "/by-id", "400")),
		productAttack(pathAttack("the same with an id of `;`, of which an upstream leaves nothing", "", "/by-id?id=%3B",
			"400")),
		pathAttack("`/admin%2F` beside an open `/{any}`", "", "/admin%2F", "400"),
		pathAttack("`/admin%5C` beside an open `/{any}`", "", "/admin%5C", "400"),
		pathAttack("`/admin;%2F` beside an open `/{any}`", "", "/admin;%2F", "400"),
		pathAttack("`/v1/%F8%80%80%80%AE`, a dot in five bytes", "", "/v1/%F8%80%80%80%AE", "400"),
		productAttack(attempt{
			class: "paths", name: "`DELETE /admin` beside an open `DELETE /{any}`",
			parts: []string{request("DELETE", "/admin")}, methods: []string{"DELETE"}, want: "405",
		}),
		pathAttack("`/%61dmin/x` against `/admin/*`", patterns, "/%61dmin/x", "401"),
		pathAttack("`//admin/x` against `/admin/*`", patterns, "//admin/x", "401"),
		pathAttack("`/admin%2Fx` against `/admin/*`", patterns, "/admin%2Fx", "400"),
		pathAttack("`/public/..%2Fadmin/x` against `/admin/*`", patterns, "/public/..%2Fadmin/x", "400"),
		pathAttack("`/public\"/../admin/x` against `/admin/*`", patterns, `/public"/../admin/x`, "401"),
		pathAttack("`/public/..;/admin/x` against `/admin/*`", patterns, "/public/..;/admin/x", "400"),
	}
}

// connectionCases returns responses that a proxy could use as the response to another request.
func connectionCases() []attempt {
	return []attempt{
		upstreamAttack("more than it said", "GET"),
		upstreamAttack("a body to HEAD", "HEAD"),
		upstreamAttack("a body with 204", "GET"),
		upstreamAttack("more after the chunks", "GET"),
		rawAttack("connections", "the upstream answers with status 042", "502", status,
			request("GET", "/echo?answer=status+042")),
		rawAttack("connections", "the upstream answers with status 999", "502", status,
			request("GET", "/echo?answer=status+999")),
		rawAttack("connections", "the upstream says two lengths", "502", status, request("GET", "/echo?answer=two+lengths")),
		rawAttack("connections", "the upstream sends a header of 1 MB", "502", status,
			request("GET", "/echo?answer=a+header+without+limit")),
	}
}

// upgradeCases returns requests that switch to another protocol.
func upgradeCases() []attempt {
	return []attempt{
		rawAttack("upgrades", "`Upgrade: h2c` to an upstream that takes it", "502", status,
			request("GET", "/echo?answer=a+switch+of+protocols", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
				"HTTP2-Settings: AAMAAABkAAQAAP__")),
		rawAttack("upgrades", "`Upgrade: websocket`, which is meant to pass", "101", status,
			request("GET", "/echo?answer=a+switch+of+protocols", "Connection: Upgrade", "Upgrade: websocket",
				"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")),
		rawAttack("upgrades", "an upstream that switches unasked", "502", status,
			request("GET", "/echo?answer=a+switch+of+protocols")),
		rawAttack("upgrades", "`Upgrade: websocket` from HTTP/1.0", "not passed on", receivedUpstream("Upgrade"),
			"GET /echo HTTP/1.0\r\nHost: {host}\r\nAttack: {mark}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
	}
}

// framingCases returns requests with an ambiguous end or with a head that is too large.
func framingCases() []attempt {
	return []attempt{
		rawAttack("headers", "`Content-Length` with `Transfer-Encoding`", "400, closed", statusAndClose,
			chunked+"Content-Length: 5\r\n\r\n0\r\n\r\n"),
		{
			class: "headers", name: "the same in the second of two requests", want: "400, closed",
			methods: []string{"GET", "POST"}, evaluate: func(c conversation, arrivals []arrival) string {
				if len(c.responses) < 2 {
					return "no second answer"
				}
				return statusAndClose(conversation{responses: c.responses[1:], disconnected: c.disconnected}, arrivals)
			}, parts: []string{request("GET", "/echo") + chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n"},
		},
		rawAttack("headers", "two different `Content-Length`", "400", status,
			request("POST", "/echo", "Content-Length: 5", "Content-Length: 6")+"hello!"),
		rawAttack("headers", "`Transfer-Encoding: xchunked`", "501", status,
			request("POST", "/echo", "Transfer-Encoding: xchunked")+"0\r\n\r\n"),
		rawAttack("headers", "a space before the colon", "400", status, request("GET", "/echo", "Accept : */*")),
		rawAttack("headers", "201 fields", "431 problem", problem,
			request("GET", "/echo", strings.Split(strings.Repeat("X: 1\n", 199), "\n")[:199]...)),
		rawAttack("headers", "a header of 70 KB", "431 problem", problem,
			request("GET", "/echo", "X: "+strings.Repeat("x", 70<<10))),
		rawAttack("headers", "800 KB of names in `Connection`", "431 problem", problem,
			request("GET", "/echo", "Connection: "+strings.Repeat("a,", 400<<10))),
	}
}

// fieldCases returns header fields, trailers and hosts that could mislead the upstream.
func fieldCases() []attempt {
	return []attempt{
		fieldAttack("`Connection: X-Forwarded-For`, so that the proxy's own is dropped", "the upstream gets it",
			func(c conversation, arrivals []arrival) string {
				if got := receivedUpstream("X-Forwarded-For")(c, arrivals); got != "passed on" {
					return "the upstream does not get it"
				}
				return "the upstream gets it"
			}, "Connection: X-Forwarded-For"),
		fieldAttack("`X_Forwarded_For`, which some read as `X-Forwarded-For`", "not passed on",
			receivedUpstream("X_forwarded_for"), "X_Forwarded_For: 10.0.0.1"),
		fieldAttack("`X-Forwarded-For.`, with a dot behind it", "not passed on", receivedUpstream("X-Forwarded-For."),
			"X-Forwarded-For.: 10.0.0.1"),
		fieldAttack("a client's own `Forwarded`", "not passed on", receivedUpstream("Forwarded"), "Forwarded: for=10.0.0.1"),
		fieldAttack("`Proxy-Authorization`", "not passed on", receivedUpstream("Proxy-Authorization"),
			"Proxy-Authorization: Basic eDp5"),
		rawAttack("headers", "a trailer `X-Forwarded-For`", "not passed on", func(c conversation, arrivals []arrival) string {
			if len(arrivals) == 0 {
				return status(c, arrivals)
			}
			if len(arrivals[0].Trailer["X-Forwarded-For"]) > 0 {
				return "passed on"
			}
			return "not passed on"
		}, chunked+"Trailer: X-Forwarded-For\r\n\r\n2\r\nhi\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"),
		rawAttack("headers", "`Host` with more behind its port", "400", status,
			"GET /echo HTTP/1.1\r\nHost: {host}x\r\nAttack: {mark}\r\n\r\n"),
		rawAttack("headers", "`Host` with a path", "400", status,
			"GET /echo HTTP/1.1\r\nHost: {host}/x\r\nAttack: {mark}\r\n\r\n"),
		rawAttack("headers", "two `Host`", "400", status,
			"GET /echo HTTP/1.1\r\nHost: {host}\r\nHost: other\r\nAttack: {mark}\r\n\r\n"),
	}
}

// responseCases returns responses that the client must receive only in part, or unchanged.
func responseCases() []attempt {
	return []attempt{
		rawAttack("headers", "a 103 to a client of HTTP/1.0", "200 alone", func(c conversation, arrivals []arrival) string {
			if len(c.responses) == 1 && len(c.responses[0].informational) == 0 {
				return fmt.Sprintf("%d alone", c.responses[0].status)
			}
			return "the 103 too"
		}, "GET /echo?answer=an+early+hint HTTP/1.0\r\nHost: {host}\r\nAttack: {mark}\r\n\r\n"),
		rawAttack("headers", "a response's field that its `Connection` lists", "the client does not get it",
			receivedByClient("X-Internal"), request("GET", "/echo?answer=a+field+for+one+hop")),
		rawAttack("headers", "a response without content type", "the client does not get it",
			receivedByClient("Content-Type"), request("GET", "/echo?answer=no+content+type")),
		rawAttack("headers", "a body that reads like a server's own refusal", "passed on as it is",
			func(c conversation, arrivals []arrival) string {
				if len(c.responses) == 1 && c.responses[0].body == badRequest {
					return "passed on as it is"
				}
				return "changed"
			}, request("GET", "/echo?answer=what+a+server+may+say")),
	}
}

// refusedCases returns requests that are well-formed except for one header field, or one part of the path.
func refusedCases() []attempt {
	return []attempt{
		rawAttack("headers", "`Expect: something`", "417 problem", problem, request("GET", "/echo", "Expect: something")),
		rawAttack("headers", "a bare `%` in the path", "400 problem", problem, request("GET", "/v1/100%")),
	}
}

// keyCases returns requests to a route that needs no key. The requests contain a key of the product, which the upstream
// must not see.
func keyCases() []attempt {
	var all []attempt
	for _, c := range []struct{ name, line string }{
		{"a key of ours as `bearer`", "Authorization: bearer {key}"},
		{"a key of ours as `Basic`", "Authorization: Basic {key}"},
		{"a key of ours without a scheme", "Authorization: {key}"},
		{"a key of ours right behind a word", "Authorization: Token{key}"},
		{"a key of ours beside another credential", "Authorization: Basic eDp5\r\nAuthorization: Bearer {key}"},
	} {
		a := rawAttack("headers", c.name+", where none is needed", "the upstream does not see it",
			func(_ conversation, arrivals []arrival) string {
				if len(arrivals) == 0 {
					return "the upstream does not see it"
				}
				if strings.Contains(fmt.Sprint(arrivals[0].Header), "gwk_") {
					return "the upstream sees it"
				}
				return "the upstream does not see it"
			}, request("GET", "/sometimes", strings.ReplaceAll(c.line, "{key}", unknownKey)))
		all = append(all, productAttack(a))
	}
	return all
}

// otherCases returns loops, slow clients, redirects and addresses of upstreams.
func otherCases() []attempt {
	return []attempt{
		rawAttack("loops", "a request that a gateway of ours has passed on eight times", "508", status,
			request("GET", "/echo", "Via: "+strings.Repeat("1.1 gatewright, ", 8))),
		productAttack(rawAttack("loops", "a key of ours in `Via`: our own member of it", "passed on",
			func(_ conversation, arrivals []arrival) string {
				if len(arrivals) == 0 || !strings.HasSuffix(strings.Join(arrivals[0].Header["Via"], ","), "1.1 gatewright") {
					return "not passed on"
				}
				return "passed on"
			}, request("GET", "/echo", "Via: 1.1 "+unknownKey))),
		rawAttack("slow clients", "a body of 1 GB announced and not sent, to what is refused", "401, closed", statusAndClose,
			request("POST", "/admin", "Content-Length: 1000000000")),
		rawAttack("slow clients", "`Expect: 100-continue` to what is refused", "401, no 100", statusAndContinue,
			request("POST", "/admin", "Content-Length: 10", "Expect: 100-continue")),
		productAttack(rawAttack("redirects", "one that is followed to another origin", "it gets none of the caller's",
			func(_ conversation, arrivals []arrival) string {
				if len(arrivals) < 2 {
					return "not followed"
				}
				for _, name := range []string{"Cookie", "Authorization", "Referer", "X-Secret"} {
					if arrivals[1].Header.Get(name) != "" {
						return "it gets " + name
					}
				}
				return "it gets none of the caller's"
			}, request("GET", "/followed?answer=a+redirect+elsewhere", "Cookie: a=b", "Authorization: Basic eDp5",
				"Referer: http://a/?secret", "X-Secret: 1"))),
		productAttack(rawAttack("addresses", "an upstream at 169.254.169.254, private ones allowed", "502", status,
			request("GET", "/metadata/0"))),
		productAttack(rawAttack("addresses", "an upstream at fd00:ec2::254, private ones allowed", "502", status,
			request("GET", "/metadata/1"))),
		productAttack(rawAttack("addresses", "an upstream at 100.100.100.200, private ones allowed", "502", status,
			request("GET", "/metadata/2"))),
	}
}

// unknownKey has the form of a consumer's key, and unknownAccountKey the form of an account key. Neither was ever issued.
const (
	unknownKey        = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	unknownAccountKey = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_73ffd956"
)

package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
)

// The built-in CORS policies (contract 4.1).
const (
	corsNone         = "none"
	corsAnythingGoes = "anything-goes"
)

// cors writes the CORS headers of responses for browsers (Fetch standard, "CORS
// protocol"). A nil *cors writes no headers, and keeps the headers of the upstream.
type cors struct {
	origins     []originPattern
	anyOrigin   bool
	methods     []string // empty: all methods that have a route
	anyMethod   bool
	headers     []string // in lower case
	anyHeader   bool
	expose      string
	maxAge      string
	credentials bool
}

// originPattern matches an origin. Its host can begin with "*.", which stands for one or more labels. Then wildcard is
// true, and prefix and suffix are the texts before and after "*". Otherwise prefix is the whole origin.
type originPattern struct {
	prefix, suffix string
	wildcard       bool
}

// anythingGoes returns a policy that allows every origin, method and header, but no cookies. A page
// can send keys and tokens in headers only if it knows them, but a browser adds cookies automatically.
func anythingGoes() *cors {
	return &cors{anyOrigin: true, anyMethod: true, anyHeader: true, expose: "*", maxAge: "600"}
}

// newCORS prepares a CORS policy of a project.
func newCORS(p project.CORSPolicy) *cors {
	c := &cors{
		anyMethod:   slices.Contains(p.AllowedMethods, "*"),
		methods:     p.AllowedMethods,
		anyHeader:   slices.Contains(p.AllowedHeaders, "*"),
		credentials: p.AllowCredentials,
	}
	for _, origin := range p.AllowedOrigins {
		if origin == "*" {
			c.anyOrigin = true
			continue
		}
		prefix, suffix, wildcard := strings.Cut(strings.ToLower(origin), "*")
		c.origins = append(c.origins, originPattern{prefix, suffix, wildcard})
	}
	for _, header := range p.AllowedHeaders {
		c.headers = append(c.headers, strings.ToLower(header))
	}
	if slices.Contains(p.ExposeHeaders, "*") && !c.credentials {
		c.expose = "*"
	} else {
		// With credentials, "*" is an ordinary header name, not a wildcard.
		c.expose = strings.Join(slices.DeleteFunc(slices.Clone(p.ExposeHeaders), func(h string) bool {
			return h == "*"
		}), ", ")
	}
	if p.MaxAgeSeconds > 0 {
		c.maxAge = strconv.Itoa(p.MaxAgeSeconds)
	}
	return c
}

// allows reports whether the policy allows requests from an origin.
func (c *cors) allows(origin string) bool {
	if origin == "" {
		return false
	}
	if c.anyOrigin {
		return true
	}
	origin = strings.ToLower(origin)
	return slices.ContainsFunc(c.origins, func(p originPattern) bool {
		if !p.wildcard {
			return origin == p.prefix
		}
		// The wildcard matches labels of a host, at least one byte. It does not match a port, user information or a path.
		if len(origin) <= len(p.prefix)+len(p.suffix) || !strings.HasPrefix(origin, p.prefix) ||
			!strings.HasSuffix(origin, p.suffix) {
			return false
		}
		return !strings.ContainsAny(origin[len(p.prefix):len(origin)-len(p.suffix)], ":/@")
	})
}

// apply replaces the upstream's CORS headers in the response to an actual request.
// Two sets of headers would contradict each other, and browsers would refuse both.
func (c *cors) apply(out http.Header, origin string) {
	if c == nil {
		return
	}
	for name := range out {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(out, name)
		}
	}
	if !c.allowOrigin(out, origin) {
		return
	}
	if c.expose != "" {
		out.Set("Access-Control-Expose-Headers", c.expose)
	}
}

// allowOrigin writes the headers that responses to preflight requests and actual
// responses have in common. It reports whether the policy allows the origin.
func (c *cors) allowOrigin(out http.Header, origin string) bool {
	if c.anyOrigin && !c.credentials {
		if origin != "" {
			out.Set("Access-Control-Allow-Origin", "*")
		}
		return origin != ""
	}
	// A cache must not reuse one origin's response for another origin.
	addVary(out, "Origin")
	if !c.allows(origin) {
		return false
	}
	out.Set("Access-Control-Allow-Origin", origin)
	if c.credentials {
		out.Set("Access-Control-Allow-Credentials", "true")
	}
	return true
}

// preflight writes the headers of the response to a preflight request. allowed has the methods of the Allow header.
// If the policy does not allow the requested method, preflight writes no methods. It writes those of the requested
// headers that the policy allows. If the method or a header is missing, the browser does not send the actual request.
// If the policy does not allow the origin, preflight writes only Vary.
func (c *cors) preflight(out, in http.Header, allowed []string) {
	if c == nil {
		return
	}
	addVary(out, "Access-Control-Request-Method")
	addVary(out, "Access-Control-Request-Headers")
	if !c.allowOrigin(out, in.Get("Origin")) {
		return
	}
	method := in.Get("Access-Control-Request-Method")
	methods := c.methods
	if c.anyMethod || len(methods) == 0 {
		methods = allowed
	}
	if slices.Contains(methods, method) {
		out.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	}
	var headers []string
	for _, value := range in["Access-Control-Request-Headers"] {
		for header := range strings.SplitSeq(value, ",") {
			header = strings.ToLower(strings.TrimSpace(header))
			if header != "" && (c.anyHeader || slices.Contains(c.headers, header)) {
				headers = append(headers, header)
			}
		}
	}
	if len(headers) > 0 {
		out.Set("Access-Control-Allow-Headers", strings.Join(headers, ", "))
	}
	if c.maxAge != "" {
		out.Set("Access-Control-Max-Age", c.maxAge)
	}
}

// addVary adds a name to the Vary field, unless the field already lists the name or "*".
func addVary(h http.Header, name string) {
	for _, value := range h["Vary"] {
		for listed := range strings.SplitSeq(value, ",") {
			if listed = strings.TrimSpace(listed); strings.EqualFold(listed, name) || listed == "*" {
				return
			}
		}
	}
	h.Add("Vary", name)
}

package expression

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/paths"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// errOutsidePath is the error of Resolve if the values of a request change the structure
// of the path that the project wrote, either directly or after an upstream has decoded
// the path, merged its slashes and resolved its dots. The gateway refuses such a request.
var errOutsidePath = errors.New("expression: the values of the request lead out of the upstream's path")

// Address is an upstream address with values of the request in its path and query. Compile fixes the
// scheme and host, or the service behind a tunnel, so no request can change them. It is immutable.
//
// A value fills a part of one path segment, or of the name or value of one query parameter, and is escaped accordingly.
// Exceptions are ${pathname} and ${search}, which insert a whole path or query, and slashes in a path parameter, which
// stay slashes. Within encodeURIComponent(…) there are no exceptions. The syntax comes from runtimes where the whole
// address is a JavaScript template literal. There, ${query.next} can add a path, a query or another host, so the route
// is an open proxy if its author forgets encodeURIComponent. A comparison of the result's host and path would detect
// these, but not an added ?admin=true. So values are escaped instead, also in ?${query.filter}, and a host with values
// of the request (https://${params.tenant}.example.com) fails the build.
type Address struct {
	scheme, host string
	path, query  []part // literals are escaped
	// usesSearch is set if the text contains ${search}, so that Resolve does not append the query.
	usesSearch bool
	staticPath string // the path if isStatic is set
	isStatic   bool   // whether the path has no values of requests
}

// Check returns the error of an address before the variables are known. It
// returns only errors that Compile returns for all values of the variables.
func Check(text string) error {
	t, err := Parse(text)
	if err != nil {
		return err
	}
	if len(t.Variables()) > 0 {
		// A variable can contain any part of an address, so only Compile can check it.
		return nil
	}
	_, err = t.Compile(nil)
	return err
}

// Compile returns the address of the text. variables are the environment's
// variables. The error says what to do, and contains no variable's value.
func (t *Text) Compile(variables map[string]string) (*Address, error) {
	parts, missing := t.insertVariables(variables)
	if len(missing) > 0 && (parts[0].value != nil || !hasHost(parts[0].literal)) {
		return nil, fmt.Errorf("set the variable %s, then deploy again: without it the address has no host", missing[0])
	}
	if len(parts) == 0 || parts[0].value != nil {
		return nil, errors.New(invalidBeginning + ": they can't come from the request")
	}
	if len(parts) > 1 && strings.HasSuffix(parts[0].literal, "://") {
		return nil, errors.New("write the host of the address or the name of the service, or a variable that holds it: it " +
			"can't come from the request")
	}
	authority, rest, err := splitOrigin(parts[0].literal)
	if err != nil {
		return nil, err
	}
	parts[0].literal = rest
	if rest == "" {
		if parts = parts[1:]; len(parts) > 0 && parts[0].value.source != pathname && parts[0].value.source != search {
			return nil, errors.New(
				`put a "/" between the host or service and the first value of the request: they can't come from the request`)
		}
	}
	a := &Address{scheme: authority.Scheme, host: authority.Host}
	if err := a.split(parts); err != nil {
		return nil, err
	}
	return a, nil
}

// invalidBeginning is the advice for an address with an invalid beginning.
const invalidBeginning = `begin the address with "https://" or "http://" and a host, or with "service://" ` +
	`and the name of a service`

// IsService reports whether the address is a service behind a tunnel (contract
// 2.8). If it is, the host of Resolve's result is the service's name.
func (a *Address) IsService() bool { return a.scheme == tunnel.Scheme }

// UsesTLS reports whether the address uses TLS.
func (a *Address) UsesTLS() bool { return a.scheme == "https" }

func hasHost(literal string) bool {
	u, err := url.Parse(literal)
	return err == nil && u.Host != ""
}

// splitOrigin splits off the scheme and host of an address, or the scheme and
// the name of a service. It does not change the case of a service's name.
func splitOrigin(literal string) (origin *url.URL, rest string, err error) {
	scheme, after, found := strings.Cut(literal, "://")
	if !found {
		return nil, "", errors.New(invalidBeginning)
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" && scheme != tunnel.Scheme {
		return nil, "", errors.New(invalidBeginning)
	}
	end := strings.IndexAny(after+"/", "/?#\\")
	host, rest := after[:end], after[end:]
	if scheme == tunnel.Scheme {
		if !tunnel.IsName(host) {
			return nil, "", errors.New(`write the name of a service behind "service://", and nothing but it before the path: ` +
				tunnel.NameRule)
		}
		return &url.URL{Scheme: scheme, Host: host}, rest, nil
	}
	if strings.Contains(host, "@") {
		return nil, "", errors.New("take the user and password out of the address and send them as a header")
	}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil || u.Hostname() == "" {
		return nil, "",
			errors.New("correct the host of the address: it is no host name or IP address, or its port is no number")
	}
	if strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
		ascii, err := idna.Lookup.ToASCII(u.Hostname())
		if err != nil {
			return nil, "", errors.New("correct the host of the address: it is no international domain name")
		}
		if u.Port() != "" {
			ascii += ":" + u.Port()
		}
		u.Host = ascii
	}
	if !httpguts.ValidHostHeader(u.Host) {
		return nil, "", errors.New("correct the host of the address: it holds a character that no host has")
	}
	return u, rest, nil
}

// split divides the text after the host into path and query.
func (a *Address) split(parts []part) error {
	inQuery := false
	for _, p := range parts {
		if p.value != nil {
			if p.value.source == search {
				a.usesSearch, inQuery = true, true
			}
			if inQuery {
				a.query = append(a.query, p)
			} else {
				a.path = append(a.path, p)
			}
			continue
		}
		literal := p.literal
		if strings.ContainsAny(literal, "#\\") {
			return errors.New(`take "#" and "\" out of the address, or write them as %23 and %5C`)
		}
		if _, err := url.PathUnescape(literal); err != nil {
			return paths.ErrEscape
		}
		literal = escapeLiteral(literal)
		if !inQuery {
			path, query, found := strings.Cut(literal, "?")
			if path != "" {
				a.path = append(a.path, part{literal: path})
			}
			if inQuery = found; !found || query == "" {
				continue
			}
			literal = query
		}
		a.query = append(a.query, part{literal: literal})
	}
	if err := a.canonicalizePath(); err != nil {
		return err
	}
	a.isStatic = len(a.path) == 0 || len(a.path) == 1 && a.path[0].value == nil
	if len(a.path) == 1 && a.isStatic {
		a.staticPath = a.path[0].literal
	}
	return nil
}

// canonicalizePath converts the literals of the path to canonical form. It
// returns an error if the path has no canonical form even with harmless values.
func (a *Address) canonicalizePath() error {
	sample := ""
	for i, p := range a.path {
		switch {
		case p.value == nil:
			literal, err := paths.NormalizePart(p.literal)
			if err != nil {
				return err
			}
			a.path[i].literal = literal
			sample += literal
		case sample == "":
			sample = "/x"
		default:
			sample += "x"
		}
	}
	if sample == "" {
		return nil
	}
	_, err := paths.CanonicalStrict(sample)
	return err
}

// escapeLiteral escapes the bytes that are not allowed in a URL. It leaves the rest unchanged, including existing escapes.
func escapeLiteral(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c >= 0x7f || strings.ContainsRune("\"<>^`{|}", rune(c)):
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Resolve returns the address for an exchange. It appends suffix to the path; suffix is escaped and begins
// with a slash, or is empty. withSearch appends the exchange's query, unless the text contains ${search}.
// The error is errOutsidePath.
func (a *Address) Resolve(x *pipeline.Exchange, suffix string, withSearch bool) (*url.URL, error) {
	path := a.staticPath
	if !a.isStatic {
		var err error
		if path, err = a.join(x, suffix); err != nil {
			return nil, err
		}
	}
	if suffix != "" {
		path = strings.TrimSuffix(path, "/") + suffix
	}
	if path == "" {
		path = "/"
	}
	if !a.isStatic { // without values, the path is fixed, and a suffix can't change it
		// If the project preserves paths, send the path as the client wrote it.
		canonical, err := paths.CanonicalStrict(path)
		if err != nil {
			return nil, errOutsidePath
		}
		if x.RawPath == "" {
			path = canonical
		}
	}
	u := &url.URL{Scheme: a.scheme, Host: a.host, Path: path, RawPath: path, RawQuery: a.resolveQuery(x, withSearch)}
	if strings.Contains(path, "%") {
		unescaped, err := url.PathUnescape(path)
		if err != nil {
			// The only possible reason is a group of a URL pattern that ends within an escape.
			return nil, errOutsidePath
		}
		u.Path = unescaped
	}
	return u, nil
}

// slashes replaces the escapes in a canonical path that upstreams can interpret as a slash.
var slashes = strings.NewReplacer("%2F", "/", "%5C", "/")

// isEffectivelyEmpty reports whether a part of a path is empty after an upstream has decoded it, merged its slashes and
// cut off the part of each segment after a ";".
func isEffectivelyEmpty(text string) bool {
	for segment := range strings.SplitSeq(slashes.Replace(text), "/") {
		if segment != "" && segment[0] != ';' && !strings.HasPrefix(segment, "%3B") {
			return false
		}
	}
	return true
}

// join inserts the values into the path; suffix is appended later. Without an ID,
// "/users/${query.id}/keys" would become "/users/keys", and "/users/${query.id}" would become
// the list of all users. So the text between two slashes must not become empty. At the end of
// the path, the group of a URL pattern can be empty, because its "*" or "?" allows that.
func (a *Address) join(x *pipeline.Exchange, suffix string) (string, error) {
	var b strings.Builder
	segmentStart := 0                      // where the current segment begins in b
	holdsValue, isRequired := false, false // whether the current segment has a value, and whether it must not be empty
	for _, p := range a.path {
		text := p.literal
		if p.value != nil {
			text = p.value.inPath(x)
		}
		isSegmentValue := p.value != nil && (p.value.source != pathname || p.value.encoded)
		divided := text
		if !isSegmentValue {
			divided = slashes.Replace(text)
			if head, _, hasSlash := strings.Cut(divided, "/"); hasSlash && holdsValue &&
				isEffectivelyEmpty(b.String()[segmentStart:]+head) {
				return "", errOutsidePath
			}
		}
		if strings.HasSuffix(b.String(), "/") {
			text = strings.TrimPrefix(text, "/") // for "/${pathname}"
		}
		b.WriteString(text)
		if isSegmentValue {
			holdsValue = true
			isRequired = isRequired || text != "" || p.value.source != param
		} else if slash := strings.LastIndexByte(divided, '/'); slash >= 0 {
			segmentStart = b.Len() - len(divided) + slash + 1
			holdsValue, isRequired = false, false
		}
	}
	if holdsValue && (isRequired || suffix != "") && isEffectivelyEmpty(b.String()[segmentStart:]) {
		return "", errOutsidePath
	}
	return b.String(), nil
}

func (a *Address) resolveQuery(x *pipeline.Exchange, withSearch bool) string {
	withSearch = withSearch && !a.usesSearch && x.Query != ""
	if len(a.query) == 0 {
		if withSearch {
			return x.Query
		}
		return ""
	}
	var b strings.Builder
	atParamStart := true // whether the next part begins a new parameter
	for _, p := range a.query {
		text := p.literal
		isSearch := p.value != nil && p.value.source == search && !p.value.encoded
		switch {
		case isSearch:
			text = x.Query
		case p.value != nil:
			text = encodeURIComponent(p.value.resolve(x))
		case atParamStart:
			text = strings.TrimPrefix(text, "&")
		}
		if (atParamStart || isSearch) && text != "" && b.Len() > 0 && !strings.HasSuffix(b.String(), "&") {
			b.WriteByte('&') // for "?a=1${search}": the inserted query begins a new parameter
		}
		b.WriteString(text)
		atParamStart = isSearch || atParamStart && text == ""
	}
	if withSearch {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(x.Query)
	}
	return b.String()
}

// inPath returns the value as a part of a path. Parameters and the path keep their escapes
// and slashes, unless encoded is set. All other values are escaped, so that they are a part of one segment.
func (v *value) inPath(x *pipeline.Exchange) string {
	if !v.encoded {
		switch v.source { //nolint:exhaustive // the other sources are escaped below
		case param:
			raw, _ := x.Params.Raw(v.name)
			return raw
		case pathname:
			return x.UpstreamPath()
		}
	}
	return encodeURIComponent(v.resolve(x))
}

package expression

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"

	"github.com/gatewright/gatewright/shared/gateway/paths"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// errOutside is what Resolve answers when values of the request would lead out
// of the path that the project wrote, as it is or once an upstream has decoded it,
// merged its slashes and resolved its dots: the request is refused.
var errOutside = errors.New("expression: the values of the request lead out of the upstream's path")

// Address is an upstream address with values of the request in its path and
// query. Scheme and host, or the service behind a tunnel, are fixed when it is
// compiled: whatever a request holds, it goes to them. It is immutable.
//
// A value fills one path segment or one query value and is escaped for it. In
// the runtimes that this syntax comes from the whole is a JavaScript template
// text, so that ${query.next} may add a path, a query or another host: an open
// proxy wherever an author forgot encodeURIComponent. Comparing the result's
// host and path would catch these, but not an added ?admin=true. The price: a
// host made of the request (https://${params.tenant}.example.com) fails the
// build, and ?${query.filter} is escaped; ${search} passes a query on whole.
type Address struct {
	scheme, host string
	path, query  []part // literals are escaped
	// usesSearch tells that the text itself says where the query goes.
	usesSearch bool
	plain      string // the path, when it has no values
	isPlain    bool
}

// Check returns what is wrong with a text as an address while the variables are
// not known yet: what Compile would refuse whatever their values are.
func Check(text string) error {
	t, err := Parse(text)
	if err != nil {
		return err
	}
	if len(t.Variables()) > 0 {
		// A variable may hold any part of an address, so only Compile can tell.
		return nil
	}
	_, err = t.Compile(nil)
	return err
}

// Compile makes an address of the text. The error says what to do and repeats
// no variable's value.
func (t *Text) Compile(variables map[string]string) (*Address, error) {
	parts, missing := t.fold(variables)
	if len(missing) > 0 && (parts[0].value != nil || !hasHost(parts[0].literal)) {
		return nil, fmt.Errorf("set the variable %s, then deploy again: without it the address has no host", missing[0])
	}
	if len(parts) == 0 || parts[0].value != nil {
		return nil, errors.New(begin + ": they can't come from the request")
	}
	if len(parts) > 1 && strings.HasSuffix(parts[0].literal, "://") {
		return nil, errors.New("write the host of the address or the name of the service, or a variable that holds it: it can't come from the request")
	}
	authority, rest, err := origins(parts[0].literal)
	if err != nil {
		return nil, err
	}
	parts[0].literal = rest
	if rest == "" {
		if parts = parts[1:]; len(parts) > 0 && parts[0].value.from != pathname && parts[0].value.from != search {
			return nil, errors.New(`put a "/" between the host or service and the first value of the request: they can't come from the request`)
		}
	}
	a := &Address{scheme: authority.Scheme, host: authority.Host}
	if err := a.split(parts); err != nil {
		return nil, err
	}
	return a, nil
}

// begin is what to do about an address that begins otherwise.
const begin = `begin the address with "https://" or "http://" and a host, or with "service://" and the name of a service`

// OfService reports whether it is that of a service behind a tunnel (contract 2.8), which is
// the host of what Resolve returns.
func (a *Address) OfService() bool { return a.scheme == tunnel.Scheme }

// Secure reports whether it is spoken to by TLS.
func (a *Address) Secure() bool { return a.scheme == "https" }

func hasHost(literal string) bool {
	u, err := url.Parse(literal)
	return err == nil && u.Host != ""
}

// origins cuts the scheme and host off the beginning of an address, or the scheme and the
// name of a service, which stays as it is written.
func origins(literal string) (origin *url.URL, rest string, err error) {
	scheme, after, found := strings.Cut(literal, "://")
	if !found {
		return nil, "", errors.New(begin)
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" && scheme != tunnel.Scheme {
		return nil, "", errors.New(begin)
	}
	end := strings.IndexAny(after+"/", "/?#\\")
	host, rest := after[:end], after[end:]
	if scheme == tunnel.Scheme {
		if !tunnel.IsName(host) {
			return nil, "", errors.New(`write the name of a service behind "service://", and nothing but it before the path: ` + tunnel.NameForm)
		}
		return &url.URL{Scheme: scheme, Host: host}, rest, nil
	}
	if strings.Contains(host, "@") {
		return nil, "", errors.New("take the user and password out of the address and send them as a header")
	}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil || u.Hostname() == "" {
		return nil, "", errors.New("correct the host of the address: it is no host name or IP address, or its port is no number")
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

// split sorts what follows the host into path and query.
func (a *Address) split(parts []part) error {
	inQuery := false
	for _, p := range parts {
		if p.value != nil {
			if p.value.from == search {
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
	if err := a.settle(); err != nil {
		return err
	}
	a.isPlain = len(a.path) == 0 || len(a.path) == 1 && a.path[0].value == nil
	if len(a.path) == 1 && a.isPlain {
		a.plain = a.path[0].literal
	}
	return nil
}

// settle makes the literals of the path canonical, and refuses those that no value
// could make a canonical path of.
func (a *Address) settle() error {
	sample := ""
	for i, p := range a.path {
		switch {
		case p.value == nil:
			literal, err := paths.Spell(p.literal)
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
	_, err := paths.Within(sample)
	return err
}

// escapeLiteral escapes what may not stand in a URL and leaves the rest, with
// the escapes that are there.
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

// Resolve returns the address for an exchange. suffix is appended to its path (it
// is escaped and begins with a slash, or is empty); withSearch appends the
// exchange's query, unless the text names it itself.
func (a *Address) Resolve(x *pipeline.Exchange, suffix string, withSearch bool) (*url.URL, error) {
	path := a.plain
	if !a.isPlain {
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
	if !a.isPlain { // one that is plain leads nowhere else, and a suffix not out of it
		// The path that the client wrote may stand in it: it stays as it is.
		canonical, err := paths.Within(path)
		if err != nil {
			return nil, errOutside
		}
		if x.Written == "" {
			path = canonical
		}
	}
	u := &url.URL{Scheme: a.scheme, Host: a.host, Path: path, RawPath: path, RawQuery: a.resolveQuery(x, withSearch)}
	if strings.Contains(path, "%") {
		unescaped, err := url.PathUnescape(path)
		if err != nil {
			// Only a group of a URL pattern that ends within an escape gets here.
			return nil, errOutside
		}
		u.Path = unescaped
	}
	return u, nil
}

// slashes are what upstreams take for a slash in a canonical path.
var slashes = strings.NewReplacer("%2F", "/", "%5C", "/")

// isHollow reports whether nothing is left of a part of a path once an upstream
// has decoded it, merged its slashes and cut path parameters off.
func isHollow(text string) bool {
	for segment := range strings.SplitSeq(slashes.Replace(text), "/") {
		if segment != "" && segment[0] != ';' && !strings.HasPrefix(segment, "%3B") {
			return false
		}
	}
	return true
}

// join puts the values into the path that suffix goes behind. Without an id
// "/users/${query.id}/keys" would be "/users/keys" and "/users/${query.id}" all
// users: what stands between two slashes of the text has to stay something. At the
// end of the path the group of a URL pattern may be empty: its "*" or "?" says so.
func (a *Address) join(x *pipeline.Exchange, suffix string) (string, error) {
	var b strings.Builder
	begin := 0 // where the segment of the text that is written now has begun
	holdsValue, isRequired := false, false
	for _, p := range a.path {
		text := p.literal
		if p.value != nil {
			text = p.value.inPath(x)
		}
		isSegment := p.value != nil && (p.value.from != pathname || p.value.encoded)
		divided := text
		if !isSegment {
			divided = slashes.Replace(text)
			if head, _, ends := strings.Cut(divided, "/"); ends && holdsValue && isHollow(b.String()[begin:]+head) {
				return "", errOutside
			}
		}
		if strings.HasSuffix(b.String(), "/") {
			text = strings.TrimPrefix(text, "/") // "/${pathname}"
		}
		b.WriteString(text)
		if isSegment {
			holdsValue = true
			isRequired = isRequired || text != "" || p.value.from != param
		} else if slash := strings.LastIndexByte(divided, '/'); slash >= 0 {
			begin = b.Len() - len(divided) + slash + 1
			holdsValue, isRequired = false, false
		}
	}
	if holdsValue && (isRequired || suffix != "") && isHollow(b.String()[begin:]) {
		return "", errOutside
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
	begins := true // what is next begins a parameter: the query before it has ended
	for _, p := range a.query {
		text := p.literal
		isSearch := p.value != nil && p.value.from == search && !p.value.encoded
		switch {
		case isSearch:
			text = x.Query
		case p.value != nil:
			text = encodeURIComponent(p.value.of(x))
		case begins:
			text = strings.TrimPrefix(text, "&")
		}
		if (begins || isSearch) && text != "" && b.Len() > 0 && !strings.HasSuffix(b.String(), "&") {
			b.WriteByte('&') // "?a=1${search}": no query goes on with a value that is written here
		}
		b.WriteString(text)
		begins = isSearch || begins && text == ""
	}
	if withSearch {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(x.Query)
	}
	return b.String()
}

// inPath returns the value as a part of a path. Parameters and the path keep the
// escapes and slashes that they were matched with; everything else becomes
// part of a single segment.
func (v *value) inPath(x *pipeline.Exchange) string {
	if !v.encoded {
		switch v.from { //nolint:exhaustive // all others are escaped below
		case param:
			raw, _ := x.Params.Raw(v.name)
			return raw
		case pathname:
			return x.UpstreamPath()
		}
	}
	return encodeURIComponent(v.of(x))
}

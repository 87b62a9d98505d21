package samples

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Request is a request. Its host is an argument of Bytes.
type Request struct {
	Method string
	// Target is the path with its query.
	Target string
	Header http.Header
	Body   []byte
}

// Bytes returns the request in HTTP/1.1.
func (r Request) Bytes(host string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Target, host)
	_ = r.Header.Write(&b) // never fails
	if r.Body != nil {
		b.WriteString("Content-Length: " + strconv.Itoa(len(r.Body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes()
}

// templateParameter matches a parameter in a path.
var templateParameter = regexp.MustCompile(`\{[^{}]*\}`)

// request is a Request under construction.
type request struct {
	d      *Document
	path   map[string]string
	query  []string
	header http.Header
	cookie []string
	body   []byte
}

// Request returns a valid request for an operation, with all parameters, and with a body if one is described. path is the
// path in the document. method can be in upper or lower case, except for additionalOperations. Request leaves out optional
// parameters for which it finds no valid value. A path parameter that is not described has some text. The request has no
// credentials.
func (d *Document) Request(method, path string) (Request, error) {
	item, operation, err := d.operation(method, path)
	if err != nil {
		return Request{}, err
	}
	r := &request{d: d, path: map[string]string{}, header: http.Header{}}
	for _, p := range d.parameters(item, operation) {
		if err := r.add(p); err != nil && p.isRequired() {
			return Request{}, err
		}
	}
	if err := r.addBody(method, operation); err != nil {
		return Request{}, err
	}
	target := templateParameter.ReplaceAllStringFunc(path, func(template string) string {
		if text, has := r.path[template[1:len(template)-1]]; has {
			return text
		}
		return "v1"
	})
	if len(r.query) > 0 {
		target += "?" + strings.Join(r.query, "&")
	}
	if len(r.cookie) > 0 {
		r.header.Set("Cookie", strings.Join(r.cookie, "; "))
	}
	if slices.Contains(methods(), strings.ToLower(method)) {
		method = strings.ToUpper(method)
	}
	return Request{method, escapeTarget(target), r.header, r.body}, nil
}

// escapeTarget escapes the characters of a path template that a request must not have.
func escapeTarget(target string) string {
	var b strings.Builder
	for _, c := range []byte(target) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"<>\^`+"`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// parameters returns the parameters of an operation, and those of its path item that the operation does not replace.
func (d *Document) parameters(item, operation place) (all []parameter) {
	for _, level := range []place{item.member("parameters"), operation.member("parameters")} {
		list, _ := level.value.([]any)
		for i := range list {
			at, found := d.resolve(level.item(i))
			if !found {
				continue
			}
			p := parameter{at}
			same := slices.IndexFunc(all, func(other parameter) bool {
				return other.text("in") == p.text("in") && other.text("name") == p.text("name")
			})
			if same >= 0 {
				all[same] = p
			} else {
				all = append(all, p)
			}
		}
	}
	return all
}

// addBody adds the body of an operation. Bodies of GET and HEAD have no meaning, and are added only if they are required.
func (r *request) addBody(method string, operation place) error {
	body, found := r.d.resolve(operation.member("requestBody"))
	if !found {
		return nil
	}
	isRequired := member(body.value, "required") == true
	if isWithoutBody := strings.EqualFold(method, http.MethodGet) || strings.EqualFold(method, http.MethodHead) ||
		strings.EqualFold(method, http.MethodTrace); isWithoutBody && !isRequired {
		return nil
	}
	name, media, has := r.d.mediaType(body.member("content"))
	if !has {
		return nil
	}
	text, contentType, err := r.d.body(name, media)
	if err != nil && isRequired {
		return err
	}
	if err == nil {
		r.body = text
		r.header.Set("Content-Type", contentType)
	}
	return nil
}

// queryEscape escapes all characters of a text that have a meaning in queries, paths and cookies.
func queryEscape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

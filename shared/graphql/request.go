package graphql

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Request is one operation that a client asks for, as GraphQL over HTTP spells it.
type Request struct {
	// Query is the document's text.
	Query string
	// OperationName says which of the document's operations is meant, "" for its only one.
	OperationName string
	// Variables and Extensions are JSON objects, or nil. They are parts of the body that was read.
	Variables, Extensions jsontext.Value
}

// Body is what a client sends: one request, or several in an array.
type Body struct {
	Requests []Request
	Batch    bool
	// whole is what was read, of which nobody has seen yet whether it is UTF-8 but in documents and names.
	whole []byte
}

// members are the names that a request's object has.
var members = [...]string{"query", "operationName", "variables", "extensions"}

// Decode reads a body of at most MaxBodyBytes. It takes what means the same to every server and
// nothing else: an object with a name twice, or with one of a request's own in other capitals,
// is one thing to us and may be another to the server behind. Members of other names are left
// out, so that no server finds a document in them that was not looked at. The body is not to be changed
// afterwards.
func Decode(body []byte) (*Body, *Error) {
	m, refused := measure(body)
	if refused != nil {
		return nil, refused
	}
	// Names that come twice are looked for by measure.
	d := decoder{jsontext.NewDecoder(bytes.NewBuffer(m.plain), jsontext.AllowDuplicateNames(true)), m}
	out := &Body{}
	switch d.PeekKind() {
	case jsontext.KindBeginObject:
		r, err := d.request()
		if err != nil {
			return nil, err
		}
		out.Requests = []Request{r}
	case jsontext.KindBeginArray:
		out.Batch = true
		if err := d.batch(out); err != nil {
			return nil, err
		}
	default:
		return nil, refuse(CodeParse, Location{}, `The body is no request. Send a JSON object such as {"query": "{ __typename }"}, or an array of them.`)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, refuse(CodeParse, Location{}, "The body goes on behind its end. Send one JSON value and nothing after it.")
	}
	out.whole = body
	return out, nil
}

// decoder reads the plain form of a body.
type decoder struct {
	*jsontext.Decoder
	measured
}

// value reads a value, and gives it as it stands in the body.
func (d decoder) value() (jsontext.Value, error) {
	plain, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(d.InputOffset())
	return d.body[d.inBody(end-len(plain)):d.inBody(end)], nil
}

var errNoJSON = &Error{Code: CodeParse, Message: "The body is no JSON in UTF-8, or has a name twice in one object. Send each name once."}

func (d decoder) batch(out *Body) *Error {
	if _, err := d.ReadToken(); err != nil {
		return errNoJSON
	}
	for d.PeekKind() == jsontext.KindBeginObject {
		if len(out.Requests) == MaxBatch {
			return refuse(CodeInput, Location{}, "A batch has %d requests at most. Send fewer at once.", MaxBatch)
		}
		r, err := d.request()
		if err != nil {
			return err.OfBatch(len(out.Requests))
		}
		out.Requests = append(out.Requests, r)
	}
	if end, err := d.ReadToken(); err != nil || end.Kind() != jsontext.KindEndArray {
		return refuse(CodeParse, Location{}, "The batch has something that is no request. Send an array of JSON objects.")
	}
	if len(out.Requests) == 0 {
		return refuse(CodeInput, Location{}, "The batch is empty. Send a request at least.")
	}
	return nil
}

func (d decoder) request() (r Request, refused *Error) {
	if _, err := d.ReadToken(); err != nil {
		return r, errNoJSON
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return r, errNoJSON
		}
		name := token.String()
		value, err := d.value()
		if err != nil {
			return r, errNoJSON
		}
		if refused := r.set(name, value); refused != nil {
			return r, refused
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return r, errNoJSON
	}
	if r.Query == "" {
		code := CodeInput
		eachMember(r.Extensions, func(string, jsontext.Value) { code = CodePersisted })
		return r, refuse(code, Location{}, "The request has no query, and none is known by a hash or an id here. Send the query itself.")
	}
	if !persistedIsQuery(r.Extensions, r.Query) {
		return r, refuse(CodeInput, Location{}, "The hash in extensions is not the query's. Send the SHA-256 of the query, or none.")
	}
	return r, nil
}

// mostWritten is how long a document may be as it is written in JSON: with half of it escaped, as line ends and
// quotation marks are. It bounds what is read more than once.
const mostWritten = 2*MaxDocumentBytes + 2

// set takes a member, whose value is valid JSON.
func (r *Request) set(name string, value jsontext.Value) *Error {
	kind := value.Kind()
	switch name {
	case "query", "operationName":
		if kind == jsontext.KindNull {
			return nil
		}
		if kind != jsontext.KindString {
			return refuse(CodeInput, Location{}, "The %s is no string. Send one, or leave it out.", name)
		}
		text := ""
		if len(value) <= mostWritten {
			text = unquote(value)
		}
		if text == "" && len(value) > 2 || len(text) > MaxDocumentBytes {
			return refuse(CodeInput, Location{}, "The %s has more than %d bytes, or twice that with its escapes. Send a shorter one, with its values as variables.", name, MaxDocumentBytes)
		}
		if !utf8.ValidString(text) {
			return errNoJSON
		}
		if name == "query" {
			r.Query = text
		} else {
			r.OperationName = text
		}
	case "variables", "extensions":
		if kind == jsontext.KindNull {
			return nil
		}
		if kind != jsontext.KindBeginObject {
			return refuse(CodeInput, Location{}, "The %s are no JSON object. Send one, or leave them out.", name)
		}
		if name == "variables" {
			r.Variables = value
		} else if r.Extensions = value; len(value) > mostWritten {
			return refuse(CodeInput, Location{}, "The extensions have more than %d bytes. Send less.", mostWritten)
		}
	default:
		for _, known := range members {
			if sameName(name, known) {
				return refuse(CodeInput, Location{}, "A name has other capitals than it should. Write %s.", known)
			}
		}
	}
	return nil
}

// sameName is whether a server that is lax about names may take one for the other: Go's and C#'s
// fold cases, some cut white space off.
func sameName(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), b) }

// unquote is the text of a valid string. Of one that is no UTF-8 it is none either.
func unquote(value jsontext.Value) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil && utf8.Valid(value) {
		panic("graphql: unquote a string that was read: " + err.Error())
	}
	return string(text)
}

// persistedIsQuery is whether a hash that stands for a document stands for this one. Servers that
// know the hash may execute what they keep under it instead of what they were sent.
func persistedIsQuery(extensions jsontext.Value, query string) bool {
	if extensions == nil {
		return true
	}
	good := true
	eachMember(extensions, func(name string, value jsontext.Value) {
		if !sameName(name, "persistedQuery") {
			return
		}
		eachMember(value, func(name string, value jsontext.Value) {
			if sameName(name, "sha256Hash") {
				sum := sha256.Sum256([]byte(query))
				good = good && value.Kind() == jsontext.KindString && strings.EqualFold(unquote(value), hex.EncodeToString(sum[:]))
			}
		})
	})
	return good
}

// eachMember calls f with the members of valid JSON that is an object.
func eachMember(object jsontext.Value, f func(name string, value jsontext.Value), how ...jsontext.Options) {
	if object.Kind() != jsontext.KindBeginObject {
		return
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(object), how...)
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		f(name, value)
	}
}

// Encode writes the body anew: what was read of it and nothing else. It refuses one that is not in UTF-8, which
// takes longer to see than all else about a body, and is not asked about those that are refused anyway.
func (b *Body) Encode() ([]byte, *Error) {
	if !utf8.Valid(b.whole) {
		return nil, errNoJSON
	}
	size := 2
	for i := range b.Requests {
		r := &b.Requests[i]
		size += len(r.Query) + len(r.Query)/8 + len(r.OperationName) + len(r.Variables) + len(r.Extensions) + 80
	}
	out := make([]byte, 0, size)
	if !b.Batch {
		return b.Requests[0].append(out), nil
	}
	for i := range b.Requests {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		out = b.Requests[i].append(append(out, separator))
	}
	return append(out, ']'), nil
}

func (r *Request) append(out []byte) []byte {
	out = quote(append(out, `{"query":`...), r.Query)
	if r.OperationName != "" {
		out = quote(append(out, `,"operationName":`...), r.OperationName)
	}
	if r.Variables != nil {
		out = append(append(out, `,"variables":`...), r.Variables...)
	}
	if r.Extensions != nil {
		out = append(append(out, `,"extensions":`...), r.Extensions...)
	}
	return append(out, '}')
}

func quote(out []byte, text string) []byte {
	out, err := jsontext.AppendQuote(out, text)
	if err != nil {
		panic("graphql: quote a text: " + err.Error()) // it was valid UTF-8
	}
	return out
}

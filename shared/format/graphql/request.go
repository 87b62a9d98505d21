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

// Request is one request of a client, in the format of GraphQL over HTTP.
type Request struct {
	// Query is the document's text.
	Query string
	// OperationName selects one of the document's operations. "" selects the document's only operation.
	OperationName string
	// Variables and Extensions are JSON objects or nil. They are slices of the body that Decode has read.
	Variables, Extensions jsontext.Value
}

// Body is the body of a client's request: one request, or several in an array.
type Body struct {
	Requests []Request
	Batch    bool
	// raw is the body that Decode has read. Decode checks only a part of it for invalid UTF-8: names, and documents
	// without escapes. Encode checks all of it.
	raw []byte
}

// members are the names of a request's members.
var members = [...]string{"query", "operationName", "variables", "extensions"}

// Decode reads a body of at most MaxBodyBytes. It accepts only bodies that every server reads the same way: an object
// with duplicate names, or with a name such as "Query" instead of "query", could mean something else to the upstream.
// Decode drops members with other names, so that no server finds an unchecked document in them. The caller must not
// change the body afterwards.
func Decode(body []byte) (*Body, *Error) {
	scanned, refused := scanBody(body)
	if refused != nil {
		return nil, refused
	}
	// scanBody has checked for duplicate names.
	d := decoder{jsontext.NewDecoder(bytes.NewBuffer(scanned.plain), jsontext.AllowDuplicateNames(true)), scanned}
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
		return nil, refuse(CodeParse, Location{},
			`The body is no request. Send a JSON object such as {"query": "{ __typename }"}, or an array of them.`)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, refuse(CodeParse, Location{},
			"The body goes on behind its end. Send one JSON value and nothing after it.")
	}
	out.raw = body
	return out, nil
}

// decoder reads the plain form of a body.
type decoder struct {
	*jsontext.Decoder
	plainBody
}

// value reads a value of the plain form, and returns the same value as it is in the body.
func (d decoder) value() (jsontext.Value, error) {
	plain, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(d.InputOffset())
	return d.body[d.bodyOffset(end-len(plain)):d.bodyOffset(end)], nil
}

var errInvalidJSON = &Error{
	Code:    CodeParse,
	Message: "The body is no JSON in UTF-8, or has a name twice in one object. Send each name once.",
}

func (d decoder) batch(out *Body) *Error {
	if _, err := d.ReadToken(); err != nil {
		return errInvalidJSON
	}
	for d.PeekKind() == jsontext.KindBeginObject {
		if len(out.Requests) == MaxBatch {
			return refuse(CodeInput, Location{}, "A batch has %d requests at most. Send fewer at once.", MaxBatch)
		}
		r, err := d.request()
		if err != nil {
			return err.WithBatchIndex(len(out.Requests))
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
		return r, errInvalidJSON
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return r, errInvalidJSON
		}
		name := token.String()
		value, err := d.value()
		if err != nil {
			return r, errInvalidJSON
		}
		if refused := r.set(name, value); refused != nil {
			return r, refused
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return r, errInvalidJSON
	}
	if r.Query == "" {
		code := CodeInput
		eachMember(r.Extensions, func(string, jsontext.Value) { code = CodePersisted })
		return r, refuse(code, Location{},
			"The request has no query, and none is known by a hash or an id here. Send the query itself.")
	}
	if !hashMatches(r.Extensions, r.Query) {
		return r, refuse(CodeInput, Location{},
			"The hash in extensions is not the query's. Send the SHA-256 of the query, or none.")
	}
	return r, nil
}

// maxQuotedBytes is the maximum length of a document as a JSON string, if each character is escaped with a
// backslash. It is also the maximum length of the extensions, since these are read more than once.
const maxQuotedBytes = 2*MaxDocumentBytes + 2

// set checks and stores a member of the request, whose value is valid JSON. It ignores a member with another name, but
// refuses a name that a lenient server could read as one of members.
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
		if len(value) <= maxQuotedBytes {
			text = unquote(value)
		}
		if text == "" && len(value) > 2 || len(text) > MaxDocumentBytes {
			return refuse(CodeInput, Location{}, "The %s has more than %d bytes, or twice that with its escapes. Send a "+
				"shorter one, with its values as variables.", name, MaxDocumentBytes)
		}
		if !utf8.ValidString(text) {
			return errInvalidJSON
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
		} else if r.Extensions = value; len(value) > maxQuotedBytes {
			return refuse(CodeInput, Location{}, "The extensions have more than %d bytes. Send less.", maxQuotedBytes)
		}
	default:
		for _, member := range members {
			if equalName(name, member) {
				return refuse(CodeInput, Location{}, "A name has other capitals than it should. Write %s.", member)
			}
		}
	}
	return nil
}

// equalName reports whether a lenient server could read the name a as the name b: servers in Go and C# ignore case, and
// some servers trim white space.
func equalName(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), b) }

// unquote returns the text of a valid string. In a string that is not UTF-8, the text keeps the invalid bytes if the
// string has no escapes. Otherwise they become U+FFFD.
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

// hashMatches reports whether the hash of a persisted query, if there is one, belongs to this
// document. Servers that know the hash can execute the stored document instead of the received one.
func hashMatches(extensions jsontext.Value, query string) bool {
	if extensions == nil {
		return true
	}
	matches := true
	eachMember(extensions, func(name string, value jsontext.Value) {
		if !equalName(name, "persistedQuery") {
			return
		}
		eachMember(value, func(name string, value jsontext.Value) {
			if equalName(name, "sha256Hash") {
				sum := sha256.Sum256([]byte(query))
				matches = matches && value.Kind() == jsontext.KindString &&
					strings.EqualFold(unquote(value), hex.EncodeToString(sum[:]))
			}
		})
	})
	return matches
}

// eachMember calls f with each member of an object, which is valid JSON. For other values, it does nothing.
func eachMember(object jsontext.Value, f func(name string, value jsontext.Value), opts ...jsontext.Options) {
	if object.Kind() != jsontext.KindBeginObject {
		return
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(object), opts...)
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

// Encode returns a body with only the members that Decode has kept. It refuses a body that is not UTF-8. Decode does
// not check that, because the check takes longer than the rest of a body's processing.
func (b *Body) Encode() ([]byte, *Error) {
	if !utf8.Valid(b.raw) {
		return nil, errInvalidJSON
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
		panic("graphql: quote a text: " + err.Error()) // the text is valid UTF-8
	}
	return out
}

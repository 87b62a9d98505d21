package api

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/fault"
)

// Bounds of a JSON body.
const (
	// MaxBodyBytes is how large a request's body may be (contract 8).
	MaxBodyBytes = 1 << 20
	// maxDepth is how deep arrays and objects may be nested. No body of the API
	// needs more than a few levels; metadata is the caller's own.
	maxDepth = 32
	// maxValues is how many values a body has, those in arrays and objects
	// counted: the largest that means something, 1000 keys with all of their
	// fields, has 8000. Each may be at fault, and every fault found takes memory.
	maxValues = 20_000
)

// takeBody reads the request's body, within its bound, and refuses what is not
// one JSON text that means the same to every parser, or has a name of f in
// another spelling. The body is JSON whatever its content type says: existing
// clients send text/plain (contract 1.1).
func takeBody(r *http.Request, f *form) error {
	body, err := bodies.Read(r.Context(), r.Body, r.ContentLength, MaxBodyBytes)
	if err != nil {
		return unread(err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = nil
	} else if err := checkJSON(body, f); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	return nil
}

// unread returns the fault of a body that could not be read.
func unread(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fault.New(fault.TooLarge, "The body is larger than %d bytes. Send less at once.", MaxBodyBytes)
	}
	if errors.Is(err, bodies.ErrBusy) {
		_, detail := bodies.Refusal(err)
		f := fault.New(fault.Unavailable, "%s", detail)
		f.RetryAfter = bodies.RetryAfter
		return f.Because(err)
	}
	return fault.New(fault.Invalid, "The body could not be read to its end. Send it again.").Because(err)
}

// buffered reads a body again: one that takeBody has put in place, or one that the platform holds.
func buffered(r *http.Request) ([]byte, error) {
	body, err := bodies.Read(bodies.Uncounted(r.Context()), r.Body, r.ContentLength, max(r.ContentLength, MaxBodyBytes))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// checkJSON walks the tokens of body. jsontext is the standard library's next
// reader of JSON: it refuses what RFC 8259 lets every parser take as it likes and
// I-JSON forbids (RFC 7493, 2.1 and 2.3), a name twice in one object, however it
// is escaped, and text that is no Unicode, such as half of a surrogate pair.
// encoding/json lets the last of a name win and reads U+FFFD for the other, so
// that a U+FFFD that was meant could not be told from it.
func checkJSON(body []byte, f *form) error {
	if !utf8.Valid(body) {
		return fault.InvalidField("body", "has to be UTF-8 text")
	}
	c := checker{Decoder: jsontext.NewDecoder(bytes.NewBuffer(body))}
	if err := c.value(f); err != nil {
		return err
	}
	if _, err := c.ReadToken(); !errors.Is(err, io.EOF) {
		return fault.InvalidField("body", "has to be one JSON value and nothing after it")
	}
	return nil
}

// checker walks a JSON text. Errors of the decoder quote the text, so they are
// not passed on; where something is, is told as huma tells it: body.tags[2].a.
type checker struct {
	*jsontext.Decoder
	path   []step // from the body to the value at hand
	values int    // how many have come
}

// step leads from an object or array to one of its values.
type step struct {
	name  string
	index int // -1 in an object
}

// value reads one value and everything in it.
func (c *checker) value(f *form) error {
	token, err := c.ReadToken()
	if err != nil {
		return c.malformed(err)
	}
	if c.values++; c.values > maxValues {
		return fault.InvalidField("body", "has more than %d values", maxValues)
	}
	switch token.Kind() {
	case jsontext.KindString:
		return c.text(token.String())
	case jsontext.KindNumber:
		if n, err := strconv.ParseFloat(token.String(), 64); err != nil || math.IsInf(n, 0) {
			return c.invalid("has a number that is too large")
		}
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		if len(c.path) == maxDepth {
			return fault.InvalidField("body", "is nested deeper than %d levels", maxDepth)
		}
		return c.within(token.Kind() == jsontext.KindBeginObject, f)
	default:
	}
	return nil
}

// within reads the values of an object or array, and its end.
func (c *checker) within(named bool, f *form) error {
	depth := len(c.path)
	c.path = append(c.path, step{})
	for i := 0; ; i++ {
		switch c.PeekKind() {
		case jsontext.KindEndObject, jsontext.KindEndArray:
			c.path = c.path[:depth]
			if _, err := c.ReadToken(); err != nil {
				return c.malformed(err)
			}
			return nil
		default:
		}
		c.path[depth] = step{index: i}
		of := f.entry()
		if named {
			name, err := c.name(f)
			if err != nil {
				return err
			}
			c.path[depth] = step{name: name, index: -1}
			of = f.field(name)
		}
		if err := c.value(of); err != nil {
			return err
		}
	}
}

// name reads the name of an object's next value.
func (c *checker) name(f *form) (string, error) {
	c.path = c.path[:len(c.path)-1] // what is wrong with a name is wrong with its object
	defer func() { c.path = append(c.path, step{}) }()
	token, err := c.ReadToken()
	if err != nil {
		return "", c.malformed(err)
	}
	name := token.String()
	if err := c.text(name); err != nil {
		return "", err
	}
	if right, ok := f.respelt(name); ok {
		c.path = append(c.path, step{name: name, index: -1})
		err := c.invalid("is no field of this operation: names are exact, write it as %s", right)
		c.path = c.path[:len(c.path)-1]
		return "", err
	}
	return name, nil
}

func (c *checker) text(s string) error {
	if strings.ContainsRune(s, 0) {
		return c.invalid("holds the character NUL, which is no text")
	}
	return nil
}

// malformed is the fault for what the decoder does not take. A name that comes
// twice stands in the object at hand.
func (c *checker) malformed(err error) error {
	at := c.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = syntax.ByteOffset
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return c.invalid("holds the same name twice in one object (at byte %d); parsers disagree on which counts", at)
	}
	return fault.InvalidField("body", "is not valid JSON (at byte %d)", at)
}

// invalid makes the fault of the value at hand.
func (c *checker) invalid(format string, args ...any) error {
	at := "body"
	for _, s := range c.path {
		if s.index < 0 {
			at += "." + s.name
		} else {
			at += "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return fault.InvalidField(at, format, args...)
}

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

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/fault"
)

// Bounds of a JSON body.
const (
	// MaxBodyBytes is the size limit of a request's body (contract 8).
	MaxBodyBytes = 1 << 20
	// maxDepth is the nesting limit of arrays and objects. The bodies of the API
	// need only a few levels, except for metadata: callers store any JSON there.
	maxDepth = 32
	// maxValues is the limit on the number of values in a body, including those in arrays
	// and objects. The largest valid body, 1000 keys with all of their fields, has 8000.
	// Each value can be invalid, and the fault for each invalid value takes memory.
	maxValues = 20_000
)

// readRequestBody reads the request's body, within MaxBodyBytes. It refuses a body that is not one JSON text with the
// same meaning for every parser, and a body with a name that differs from a name of shape only in the case of its
// letters. It reads the body as JSON and ignores its content type: existing clients send text/plain (contract 1.1).
func readRequestBody(r *http.Request, shape *bodyShape) error {
	body, err := bodies.Read(r.Context(), r.Body, r.ContentLength, MaxBodyBytes)
	if err != nil {
		return bodyFault(err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = nil
	} else if err := checkJSON(body, shape); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	return nil
}

// bodyFault returns the fault of a body that could not be read.
func bodyFault(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fault.New(fault.TooLarge, "The body is larger than %d bytes. Send less at once.", MaxBodyBytes)
	}
	if errors.Is(err, bodies.ErrBusy) {
		_, detail := bodies.Refusal(err)
		f := fault.New(fault.Unavailable, "%s", detail)
		f.RetryAfter = bodies.RetryAfter
		return f.WithCause(err)
	}
	return fault.New(fault.Invalid, "The body could not be read to its end. Send it again.").WithCause(err)
}

// readBuffered reads a body that is in memory already, because readRequestBody has
// read it or the platform has passed it as a whole. It sets r.Body to a new reader of the same bytes.
func readBuffered(r *http.Request) ([]byte, error) {
	body, err := bodies.Read(bodies.Uncounted(r.Context()), r.Body, r.ContentLength, max(r.ContentLength, MaxBodyBytes))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// checkJSON checks the tokens of body. It uses jsontext, the JSON reader of the future version of
// encoding/json. RFC 8259 lets parsers differ for a duplicate name in an object, however it is escaped, and for
// text that is not Unicode, such as half of a surrogate pair. I-JSON forbids both (RFC 7493, 2.1 and 2.3), and
// jsontext refuses both. The first version of encoding/json uses the last of duplicate names. It reads
// invalid text as U+FFFD, which cannot be distinguished from an intended U+FFFD.
func checkJSON(body []byte, shape *bodyShape) error {
	if !utf8.Valid(body) {
		return fault.InvalidField("body", "has to be UTF-8 text")
	}
	c := checker{Decoder: jsontext.NewDecoder(bytes.NewBuffer(body))}
	if err := c.value(shape); err != nil {
		return err
	}
	if _, err := c.ReadToken(); !errors.Is(err, io.EOF) {
		return fault.InvalidField("body", "has to be one JSON value and nothing after it")
	}
	return nil
}

// checker checks a JSON text. It does not return errors of the decoder, because
// these quote the text. Locations have the format of huma: body.tags[2].a.
type checker struct {
	*jsontext.Decoder
	path   []step // from the body to the current value
	values int    // number of values so far
}

// step leads from an object or array to one of its values.
type step struct {
	name  string
	index int // -1 in an object
}

// value reads one value and all values in it.
func (c *checker) value(shape *bodyShape) error {
	token, err := c.ReadToken()
	if err != nil {
		return c.malformed(err)
	}
	if c.values++; c.values > maxValues {
		return fault.InvalidField("body", "has more than %d values", maxValues)
	}
	switch token.Kind() {
	case jsontext.KindString:
		return c.checkText(token.String())
	case jsontext.KindNumber:
		if n, err := strconv.ParseFloat(token.String(), 64); err != nil || math.IsInf(n, 0) {
			return c.invalid("has a number that is too large")
		}
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		if len(c.path) == maxDepth {
			return fault.InvalidField("body", "is nested deeper than %d levels", maxDepth)
		}
		return c.container(token.Kind() == jsontext.KindBeginObject, shape)
	default:
	}
	return nil
}

// container reads the values of an object or array, including its closing bracket.
func (c *checker) container(isObject bool, shape *bodyShape) error {
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
		child := shape.entry()
		if isObject {
			name, err := c.name(shape)
			if err != nil {
				return err
			}
			c.path[depth] = step{name: name, index: -1}
			child = shape.field(name)
		}
		if err := c.value(child); err != nil {
			return err
		}
	}
}

// name reads the name of an object's next value.
func (c *checker) name(shape *bodyShape) (string, error) {
	c.path = c.path[:len(c.path)-1] // faults of a name are reported at its object, unless only its case is wrong
	defer func() { c.path = append(c.path, step{}) }()
	token, err := c.ReadToken()
	if err != nil {
		return "", c.malformed(err)
	}
	name := token.String()
	if err := c.checkText(name); err != nil {
		return "", err
	}
	if exact, ok := shape.exactName(name); ok {
		c.path = append(c.path, step{name: name, index: -1})
		err := c.invalid("is no field of this operation: names are exact, write it as %s", exact)
		c.path = c.path[:len(c.path)-1]
		return "", err
	}
	return name, nil
}

// checkText refuses the character NUL in a string or name.
func (c *checker) checkText(s string) error {
	if strings.ContainsRune(s, 0) {
		return c.invalid("holds the character NUL, which is no text")
	}
	return nil
}

// malformed returns the fault for an error of the decoder. A duplicate name is reported at the current object.
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

// invalid returns a fault at the location of the current value.
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

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

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
// one JSON text that means the same to every parser. The body is JSON whatever
// its content type says: existing clients send text/plain (contract 1.1).
func takeBody(r *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBodyBytes+1))
	if err != nil {
		return fault.New(fault.Invalid, "The body could not be read to its end.").Because(err)
	}
	if len(body) > MaxBodyBytes {
		return fault.New(fault.TooLarge, "The body is larger than %d bytes.", MaxBodyBytes)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = nil
	} else if err := checkJSON(body); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	return nil
}

// checkJSON walks the tokens of body.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return fault.InvalidField("body", "has to be UTF-8 text")
	}
	c := checker{Decoder: json.NewDecoder(bytes.NewReader(body))}
	c.UseNumber()
	if err := c.value(); err != nil {
		return err
	}
	if _, err := c.Token(); !errors.Is(err, io.EOF) {
		return fault.InvalidField("body", "has to be one JSON value and nothing after it")
	}
	return nil
}

// checker walks a JSON text. Errors of the decoder quote the text, so they are
// not passed on; where something is, is told as huma tells it: body.tags[2].a.
type checker struct {
	*json.Decoder
	path   []step // from the body to the value at hand
	values int    // how many have come
}

// step leads from an object or array to one of its values.
type step struct {
	name  string
	index int // -1 in an object
}

// value reads one value and everything in it.
func (c *checker) value() error {
	token, err := c.Token()
	if err != nil {
		return c.malformed()
	}
	if c.values++; c.values > maxValues {
		return fault.InvalidField("body", "has more than %d values", maxValues)
	}
	switch t := token.(type) {
	case string:
		return c.text(t)
	case json.Number:
		if _, err := t.Float64(); err != nil {
			return c.invalid("has a number that is too large")
		}
	case json.Delim:
		if len(c.path) == maxDepth {
			return fault.InvalidField("body", "is nested deeper than %d levels", maxDepth)
		}
		return c.within(t == '{')
	}
	return nil
}

// within reads the values of an object or array, and its end.
func (c *checker) within(named bool) error {
	depth := len(c.path)
	c.path = append(c.path, step{})
	names := map[string]bool{}
	for i := 0; c.More(); i++ {
		c.path[depth] = step{index: i}
		if named {
			name, err := c.name(names)
			if err != nil {
				return err
			}
			c.path[depth] = step{name: name, index: -1}
		}
		if err := c.value(); err != nil {
			return err
		}
	}
	c.path = c.path[:depth]
	if _, err := c.Token(); err != nil {
		return c.malformed()
	}
	return nil
}

// name reads the name of an object's next value.
func (c *checker) name(seen map[string]bool) (string, error) {
	token, err := c.Token()
	name, ok := token.(string)
	if err != nil || !ok {
		return "", c.malformed()
	}
	c.path = c.path[:len(c.path)-1] // what is wrong with a name is wrong with its object
	defer func() { c.path = append(c.path, step{}) }()
	if seen[name] {
		return "", c.invalid("holds the same name twice in one object (at byte %d); parsers disagree on which counts", c.InputOffset())
	}
	seen[name] = true
	return name, c.text(name)
}

func (c *checker) text(s string) error {
	if strings.ContainsRune(s, 0) || strings.ContainsRune(s, utf8.RuneError) {
		return c.invalid("holds a character that is no text (NUL, half a surrogate pair or U+FFFD)")
	}
	return nil
}

func (c *checker) malformed() error {
	return fault.InvalidField("body", "is not valid JSON (at byte %d)", c.InputOffset())
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

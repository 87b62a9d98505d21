package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
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
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := checkValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.InvalidField("body", "has to be one JSON value and nothing after it")
	}
	return nil
}

// checkValue reads one value and everything in it. Errors of the decoder quote
// the body, so they are not passed on.
func checkValue(d *json.Decoder, depth int) error {
	token, err := d.Token()
	if err != nil {
		return malformed(d)
	}
	switch t := token.(type) {
	case string:
		return checkString(t)
	case json.Delim:
		if depth == maxDepth {
			return fault.InvalidField("body", "is nested deeper than %d levels", maxDepth)
		}
		names := map[string]bool{}
		for d.More() {
			if t == '{' {
				if err := checkName(d, names); err != nil {
					return err
				}
			}
			if err := checkValue(d, depth+1); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return malformed(d)
		}
	}
	return nil
}

func checkName(d *json.Decoder, seen map[string]bool) error {
	token, err := d.Token()
	if err != nil {
		return malformed(d)
	}
	name, ok := token.(string)
	if !ok {
		return malformed(d)
	}
	if seen[name] {
		return fault.InvalidField("body", "holds the same name twice in one object (at byte %d); parsers disagree on which counts", d.InputOffset())
	}
	seen[name] = true
	return checkString(name)
}

func checkString(s string) error {
	if strings.ContainsRune(s, 0) || strings.ContainsRune(s, utf8.RuneError) {
		return fault.InvalidField("body", "holds a character that is no text (NUL, half a surrogate pair or U+FFFD)")
	}
	return nil
}

func malformed(d *json.Decoder) error {
	return fault.InvalidField("body", "is not valid JSON (at byte %d)", d.InputOffset())
}

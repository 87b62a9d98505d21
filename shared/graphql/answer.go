package graphql

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Answer is what an answer to one request says of how it went.
type Answer struct {
	// Codes are those of its errors, "" for one without: at most maxCodes of them.
	Codes []string
	// Resolver is the time that the server says it took, by the tracing extension of Apollo's
	// servers, 0 where it does not say.
	Resolver time.Duration
}

// maxCodes bounds what is kept of an answer's errors.
const maxCodes = 100

// lenient is how answers are read: clients get them as they are, whatever a strict reader finds wrong with them.
func lenient() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// ReadAnswers reads an answer as far as it is there: of one that was cut off, what comes before. It
// answers nil for what is no GraphQL answer. batch is whether they are those of a list: an answer that is
// in none is that to all requests.
func ReadAnswers(text []byte) (all []Answer, batch bool) {
	// Most answers have neither, and are not read for nothing.
	if !bytes.Contains(text, []byte(`"errors"`)) && !bytes.Contains(text, []byte(`"tracing"`)) {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(bytes.TrimPrefix(text, []byte("\ufeff"))), lenient()...)
	switch d.PeekKind() {
	case jsontext.KindBeginObject:
		one, _ := readAnswer(d)
		return []Answer{one}, false
	case jsontext.KindBeginArray:
		_, _ = d.ReadToken()
		for d.PeekKind() == jsontext.KindBeginObject && len(all) < MaxBatch {
			one, whole := readAnswer(d)
			all = append(all, one)
			if !whole {
				break
			}
		}
		return all, true
	default:
		return nil, false
	}
}

// readAnswer reads the answer to one request. whole is false where it ended early.
func readAnswer(d *jsontext.Decoder) (a Answer, whole bool) {
	if _, err := d.ReadToken(); err != nil {
		return a, false
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return a, false
		}
		switch name := token.String(); {
		case name == "errors" && d.PeekKind() == jsontext.KindBeginArray:
			if !a.readErrors(d) {
				return a, false
			}
		case name == "extensions":
			value, err := d.ReadValue()
			if err != nil {
				return a, false
			}
			a.readTracing(value)
		default:
			if d.SkipValue() != nil {
				return a, false
			}
		}
	}
	_, err := d.ReadToken()
	return a, err == nil
}

func (a *Answer) readErrors(d *jsontext.Decoder) (whole bool) {
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() != jsontext.KindEndArray {
		value, err := d.ReadValue()
		if err != nil {
			if len(a.Codes) == 0 {
				a.Codes = []string{""} // there is one, of which nothing more is known
			}
			return false
		}
		if len(a.Codes) == maxCodes {
			continue
		}
		code := ""
		at(value, "extensions", func(extensions jsontext.Value) {
			at(extensions, "code", func(value jsontext.Value) {
				if value.Kind() == jsontext.KindString {
					code = unquote(value)
				}
			})
		})
		a.Codes = append(a.Codes, code)
	}
	_, err := d.ReadToken()
	return err == nil
}

func (a *Answer) readTracing(extensions jsontext.Value) {
	at(extensions, "tracing", func(tracing jsontext.Value) {
		at(tracing, "duration", func(duration jsontext.Value) {
			if ns, err := strconv.ParseInt(string(duration), 10, 64); err == nil && ns > 0 {
				a.Resolver = time.Duration(ns)
			}
		})
	})
}

// at calls f with a member of an object, if it is there.
func at(object jsontext.Value, name string, f func(jsontext.Value)) {
	eachMember(object, func(found string, value jsontext.Value) {
		if found == name {
			f(value)
		}
	}, lenient()...)
}

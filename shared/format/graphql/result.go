package graphql

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Result is the result of one request, read from its response.
type Result struct {
	// Codes has the code of each error, or "" for an error without a code. It has at most maxCodes elements.
	Codes []string
	// ResolverTime is the time that the server reports in the tracing extension of Apollo's servers. It is 0 if the server
	// does not report it.
	ResolverTime time.Duration
}

// maxCodes is the maximum number of errors in a Result. Further errors are ignored.
const maxCodes = 100

// lenientOptions returns the options for reading responses. Clients receive responses unchanged, even if a strict
// reader would refuse them.
func lenientOptions() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// ReadResults reads the errors and the tracing extension of a response. If the response is truncated, it reads the part
// that was received. It returns nil if the text contains neither errors nor tracing, or is not a GraphQL response.
// batch reports whether the response is a list. ReadResults reads at most MaxBatch elements of a list. A response that
// is not in a list belongs to all requests.
func ReadResults(text []byte) (all []Result, batch bool) {
	// Most responses contain neither errors nor tracing, so do not parse them.
	if !bytes.Contains(text, []byte(`"errors"`)) && !bytes.Contains(text, []byte(`"tracing"`)) {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(bytes.TrimPrefix(text, []byte("\ufeff"))), lenientOptions()...)
	switch d.PeekKind() {
	case jsontext.KindBeginObject:
		result, _ := readResult(d)
		return []Result{result}, false
	case jsontext.KindBeginArray:
		_, _ = d.ReadToken()
		for d.PeekKind() == jsontext.KindBeginObject && len(all) < MaxBatch {
			result, complete := readResult(d)
			all = append(all, result)
			if !complete {
				break
			}
		}
		return all, true
	default:
		return nil, false
	}
}

// readResult reads the response to one request. complete is false if the response is truncated.
func readResult(d *jsontext.Decoder) (r Result, complete bool) {
	if _, err := d.ReadToken(); err != nil {
		return r, false
	}
	for d.PeekKind() == jsontext.KindString {
		token, err := d.ReadToken()
		if err != nil {
			return r, false
		}
		switch name := token.String(); {
		case name == "errors" && d.PeekKind() == jsontext.KindBeginArray:
			if !r.readErrors(d) {
				return r, false
			}
		case name == "extensions":
			value, err := d.ReadValue()
			if err != nil {
				return r, false
			}
			r.readTracing(value)
		default:
			if d.SkipValue() != nil {
				return r, false
			}
		}
	}
	_, err := d.ReadToken()
	return r, err == nil
}

func (r *Result) readErrors(d *jsontext.Decoder) (complete bool) {
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() != jsontext.KindEndArray {
		value, err := d.ReadValue()
		if err != nil {
			if len(r.Codes) == 0 {
				r.Codes = []string{""} // the truncated response has an error with an unknown code
			}
			return false
		}
		if len(r.Codes) == maxCodes {
			continue
		}
		code := ""
		withMember(value, "extensions", func(extensions jsontext.Value) {
			withMember(extensions, "code", func(value jsontext.Value) {
				if value.Kind() == jsontext.KindString {
					code = unquote(value)
				}
			})
		})
		r.Codes = append(r.Codes, code)
	}
	_, err := d.ReadToken()
	return err == nil
}

func (r *Result) readTracing(extensions jsontext.Value) {
	withMember(extensions, "tracing", func(tracing jsontext.Value) {
		withMember(tracing, "duration", func(duration jsontext.Value) {
			if ns, err := strconv.ParseInt(string(duration), 10, 64); err == nil && ns > 0 {
				r.ResolverTime = time.Duration(ns)
			}
		})
	})
}

// withMember calls f with the value of each member of an object that has this name.
func withMember(object jsontext.Value, name string, f func(jsontext.Value)) {
	eachMember(object, func(member string, value jsontext.Value) {
		if member == name {
			f(value)
		}
	}, lenientOptions()...)
}

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of the JSON that Decode reads.
const (
	// MaxDepth is the maximum nesting of lists and objects.
	MaxDepth = 128
	// MaxValues is the maximum number of values. A value of two bytes takes some 50 bytes of memory.
	MaxValues = 500_000
)

// Decode reads one JSON value. It returns maps, slices, strings, booleans, nil, and numbers as json.Number, which keeps
// their text. It refuses input that parsers read differently, or that needs too much work or memory: a name that an
// object has twice, text that is not UTF-8, more than one value, nesting of more than MaxDepth levels, more than
// MaxValues values, and numbers that are not safe (IsSafeNumber). The violation has the place of the mistake.
func Decode(data []byte) (any, *Violation) {
	// The maps of objects find duplicate names, so the decoder does not have to.
	d := decoder{tokens: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))}
	value, err := d.value(0)
	if err == nil {
		if _, err = d.tokens.ReadToken(); errors.Is(err, io.EOF) {
			return value, nil
		}
		return nil, &Violation{Detail: "must be one JSON value, without anything after it"}
	}
	if refused, ok := errors.AsType[*decodeError](err); ok {
		return nil, &refused.violation
	}
	at := ""
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = BoundedPointer(string(syntactic.JSONPointer))
	}
	switch {
	case !utf8.Valid(data):
		return nil, &Violation{Pointer: at, Detail: "must be UTF-8 text"}
	case errors.Is(err, io.EOF):
		return nil, &Violation{Detail: "must be JSON, and is empty"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &Violation{Pointer: at, Detail: "must be JSON, and ends too early"}
	}
	return nil, &Violation{Pointer: at, Detail: "must be JSON, and has a syntax error here"}
}

// decodeError is the error for JSON that Decode refuses.
type decodeError struct{ violation Violation }

// Error implements error.
func (e *decodeError) Error() string { return e.violation.Pointer + " " + e.violation.Detail }

type decoder struct {
	tokens *jsontext.Decoder
	values int
}

// value reads the next value, which is inside depth lists and objects.
func (d *decoder) value(depth int) (any, error) {
	token, err := d.tokens.ReadToken()
	if err != nil {
		return nil, err
	}
	if d.values++; d.values > MaxValues {
		return nil, d.refuse("must not come after the first " + strconv.Itoa(MaxValues) + " values: send fewer")
	}
	kind := token.Kind()
	if kind == jsontext.KindNull {
		return nil, nil
	}
	if kind == jsontext.KindTrue || kind == jsontext.KindFalse {
		return token.Bool(), nil
	}
	if kind == jsontext.KindString {
		return token.String(), nil
	}
	if kind == jsontext.KindNumber {
		text := token.String()
		if !IsSafeNumber(text) {
			return nil, d.refuse("must be a number of at most " + strconv.Itoa(MaxNumberBytes) +
				" characters between -1e308 and 1e308")
		}
		return json.Number(text), nil
	}
	if depth == MaxDepth {
		return nil, d.refuse("must not be nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
	}
	if kind == jsontext.KindBeginArray {
		return d.list(depth)
	}
	return d.object(depth)
}

func (d *decoder) list(depth int) (any, error) {
	list := []any{}
	for d.tokens.PeekKind() != jsontext.KindEndArray {
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := d.tokens.ReadToken()
	return list, err
}

func (d *decoder) object(depth int) (any, error) {
	object := map[string]any{}
	for d.tokens.PeekKind() != jsontext.KindEndObject {
		name, err := d.tokens.ReadToken()
		if err != nil {
			return nil, err
		}
		text := name.String()
		if _, exists := object[text]; exists {
			return nil, d.refuse("must not be sent twice")
		}
		if object[text], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.tokens.ReadToken()
	return object, err
}

// refuse returns the violation of the value that was read last.
func (d *decoder) refuse(detail string) error {
	return &decodeError{Violation{Pointer: BoundedPointer(string(d.tokens.StackPointer())), Detail: detail}}
}

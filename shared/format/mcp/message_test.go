package mcp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gatewright/gatewright/shared/format/schema"
)

// TestReadBodyLimit checks that bodies with and without a declared
// length are read to their end, or refused if they are too long.
func TestReadBodyLimit(t *testing.T) {
	t.Parallel()
	text := func(size int) io.Reader { return strings.NewReader(strings.Repeat("x", size)) }
	for _, test := range []struct {
		name   string
		body   io.Reader
		length int64
		status int // of a refusal, or 0 if accepted
	}{
		{"the largest length", text(maxMessageBytes), maxMessageBytes, 0},
		{"the largest length without Content-Length", text(maxMessageBytes), -1, 0},
		{"too large", text(maxMessageBytes + 1), maxMessageBytes + 1, http.StatusRequestEntityTooLarge},
		{"too large, without Content-Length", text(maxMessageBytes + 1), -1, http.StatusRequestEntityTooLarge},
		{
			"a length over the listener's limit", iotest.ErrReader(&http.MaxBytesError{Limit: 1}), -1,
			http.StatusRequestEntityTooLarge,
		},
		{
			"a truncated body", io.MultiReader(text(10), iotest.ErrReader(errors.New("the connection broke"))), 20,
			http.StatusBadRequest,
		},
	} {
		body, err := readBody(t.Context(), test.body, test.length)
		refused, ok := errors.AsType[*messageError](err)
		switch {
		case test.status == 0 && (err != nil || len(body) != maxMessageBytes):
			t.Errorf("%s: readBody() = %d bytes, %v, want %d and no error", test.name, len(body), err, maxMessageBytes)
		case test.status != 0 && (!ok || refused.status != test.status || body != nil):
			t.Errorf("%s: readBody() = %d bytes, %v, want none and status %d", test.name, len(body), err, test.status)
		}
	}
}

// TestMessageBounds checks that messages beyond a bound are refused, with the right code.
func TestMessageBounds(t *testing.T) {
	t.Parallel()
	message := func(id, value string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping","params":{"a":%s}}`, id, value)
	}
	nested := func(levels int) string { // message adds two levels
		return message("1", strings.Repeat("[", levels-2)+strings.Repeat("]", levels-2))
	}
	batch := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = message(fmt.Sprint(i), "1")
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for _, test := range []struct {
		name, body string
		code       int // of a refusal, or 0 if accepted
	}{
		{"the maximum of levels", nested(maxMessageDepth), 0},
		{"too many levels", nested(maxMessageDepth + 1), codeInvalidRequest},
		{"a long number", message("1", "1."+strings.Repeat("1", schema.MaxNumberBytes-2)), 0},
		{"a number that is too long", message("1", "1."+strings.Repeat("1", schema.MaxNumberBytes-1)), codeInvalidRequest},
		{"a large number", message("1", "-1e308"), 0},
		{"a number that is too large", message("1", "1e309"), codeInvalidRequest},
		{"a small number", message("1", "1e-300"), 0},
		{"a number of many zeros", message("1", "1e-999999999"), codeInvalidRequest},
		{"zero with a large exponent", message("1", "0e999999999"), codeInvalidRequest},
		{"zero", message("1", "0.000"), 0},
		{"a long id", message(`"`+strings.Repeat("x", maxIDBytes-2)+`"`, "1"), 0},
		{"an id that is too long", message(`"`+strings.Repeat("x", maxIDBytes-1)+`"`, "1"), codeInvalidRequest},
		{"the largest id", message("9007199254740991", "1"), 0},
		{"an id that clients cannot represent", message("9007199254740993", "1"), codeInvalidRequest},
		{"the smallest id", message("-9007199254740991", "1"), 0},
		{"the largest batch", batch(maxBatch), 0},
		{"a batch that is too large", batch(maxBatch + 1), codeInvalidRequest},
		{"equal notifications", `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"a"}]`, 0},
		{"calls with the same id", "[" + message("1", "1") + "," + message("1", "2") + "]", codeInvalidRequest},
		{"calls with the same method", "[" + message("1", "1") + "," + message("2", "1") + "]", 0},
		{"two messages", message("1", "1") + message("2", "1"), codeParse},
		{"two messages and a bracket", message("1", "1") + message("2", "1") + "]", codeParse},
	} {
		messages, _, err := readMessages([]byte(test.body))
		refused, ok := errors.AsType[*messageError](err)
		if test.code == 0 && (err != nil || len(messages) == 0) {
			t.Errorf("%s: readMessages() = %d messages, %v, want messages and no error", test.name, len(messages), err)
		}
		if test.code != 0 && (!ok || refused.code != test.code || refused.status != http.StatusBadRequest) {
			t.Errorf("%s: readMessages() error = %v, want status 400 and code %d", test.name, err, test.code)
		}
	}
}

// TestMessageValuesAreBounded checks the maximum number of values: checking a
// megabyte of ones takes twenty times as much memory. Names do not count as values.
func TestMessageValuesAreBounded(t *testing.T) {
	t.Parallel()
	lists := func(n int) string { return "[1" + strings.Repeat(",1", n-2) + "]" }
	members := func(n int) string {
		var b strings.Builder
		for i := range n - 1 {
			fmt.Fprintf(&b, `,"%d":"%d"`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, test := range []struct {
		name, text string
		refused    bool
	}{
		{"a list", lists(maxMessageValues), false},
		{"a list with one value more", lists(maxMessageValues + 1), true},
		{"an object", members(maxMessageValues), false},
		{"an object with one value more", members(maxMessageValues + 1), true},
		{"empty objects", "[" + strings.Repeat("{},", maxMessageValues-2) + "{}]", false},
		{"one empty object more", "[" + strings.Repeat("{},", maxMessageValues-1) + "{}]", true},
	} {
		err := CheckJSON([]byte(test.text))
		refused, ok := errors.AsType[*messageError](err)
		if (err != nil) != test.refused || test.refused && (!ok || refused.status != http.StatusBadRequest ||
			refused.code != codeInvalidRequest) {
			t.Errorf("%s: CheckJSON() = %v, want a refusal %v with status 400 and code %d",
				test.name, err, test.refused, codeInvalidRequest)
		}
	}
}

package mcp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// TestBodiesAreReadUpToTheirBound, whether they tell their length or not, and to their end or not at all.
func TestBodiesAreReadUpToTheirBound(t *testing.T) {
	t.Parallel()
	text := func(size int) io.Reader { return strings.NewReader(strings.Repeat("x", size)) }
	for _, test := range []struct {
		name   string
		body   io.Reader
		length int64
		status int // of a refusal, 0 for none
	}{
		{"of the largest length", text(maxMessageBytes), maxMessageBytes, 0},
		{"of the largest length, untold", text(maxMessageBytes), -1, 0},
		{"larger", text(maxMessageBytes + 1), maxMessageBytes + 1, http.StatusRequestEntityTooLarge},
		{"larger, untold", text(maxMessageBytes + 1), -1, http.StatusRequestEntityTooLarge},
		{"larger than the listener takes", iotest.ErrReader(&http.MaxBytesError{Limit: 1}), -1, http.StatusRequestEntityTooLarge},
		{"broken off", io.MultiReader(text(10), iotest.ErrReader(errors.New("the connection broke"))), 20, http.StatusBadRequest},
	} {
		body, err := readBody(t.Context(), test.body, test.length)
		refused, ok := errors.AsType[*messageError](err)
		switch {
		case test.status == 0 && (err != nil || len(body) != maxMessageBytes):
			t.Errorf("%s: %d bytes, %v", test.name, len(body), err)
		case test.status != 0 && (!ok || refused.status != test.status || body != nil):
			t.Errorf("%s: %d bytes, %v", test.name, len(body), err)
		}
	}
}

// TestMessagesAreTakenUpToTheirBounds, and what is beyond one is refused, with its code.
func TestMessagesAreTakenUpToTheirBounds(t *testing.T) {
	t.Parallel()
	with := func(id, value string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping","params":{"a":%s}}`, id, value)
	}
	nested := func(levels int) string { // two of them are those of with
		return with("1", strings.Repeat("[", levels-2)+strings.Repeat("]", levels-2))
	}
	batch := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = with(fmt.Sprint(i), "1")
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for _, test := range []struct {
		name, body string
		code       int // of a refusal, 0 for none
	}{
		{"levels", nested(maxMessageDepth), 0},
		{"more levels", nested(maxMessageDepth + 1), codeInvalidRequest},
		{"a long number", with("1", "1."+strings.Repeat("1", maxNumberBytes-2)), 0},
		{"a longer number", with("1", "1."+strings.Repeat("1", maxNumberBytes-1)), codeInvalidRequest},
		{"a large number", with("1", "-1e308"), 0},
		{"a larger number", with("1", "1e309"), codeInvalidRequest},
		{"a small number", with("1", "1e-300"), 0},
		{"a number of many zeros", with("1", "1e-999999999"), codeInvalidRequest},
		{"zero with a large exponent", with("1", "0e999999999"), codeInvalidRequest},
		{"zero", with("1", "0.000"), 0},
		{"a long id", with(`"`+strings.Repeat("x", maxIDBytes-2)+`"`, "1"), 0},
		{"a longer id", with(`"`+strings.Repeat("x", maxIDBytes-1)+`"`, "1"), codeInvalidRequest},
		{"the largest id", with("9007199254740991", "1"), 0},
		{"an id that a client's numbers have not", with("9007199254740993", "1"), codeInvalidRequest},
		{"the smallest id", with("-9007199254740991", "1"), 0},
		{"a batch", batch(maxBatch), 0},
		{"a larger batch", batch(maxBatch + 1), codeInvalidRequest},
		{"notifications that are equal", `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"a"}]`, 0},
		{"calls of one id", "[" + with("1", "1") + "," + with("1", "2") + "]", codeInvalidRequest},
		{"calls of one method", "[" + with("1", "1") + "," + with("2", "1") + "]", 0},
		{"two messages", with("1", "1") + with("2", "1"), codeParse},
		{"two messages and more", with("1", "1") + with("2", "1") + "]", codeParse},
	} {
		messages, _, err := readMessages([]byte(test.body))
		refused, ok := errors.AsType[*messageError](err)
		if test.code == 0 && (err != nil || len(messages) == 0) || test.code != 0 && (!ok || refused.code != test.code || refused.status != http.StatusBadRequest) {
			t.Errorf("%s: %d messages, %v", test.name, len(messages), err)
		}
	}
}

// TestTheValuesOfAMessageAreBounded: a megabyte of ones takes twenty times as much to be checked. Names are no values.
func TestTheValuesOfAMessageAreBounded(t *testing.T) {
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
		{"one more in it", lists(maxMessageValues + 1), true},
		{"an object", members(maxMessageValues), false},
		{"one more in it", members(maxMessageValues + 1), true},
		{"empty objects", "[" + strings.Repeat("{},", maxMessageValues-2) + "{}]", false},
		{"one more of them", "[" + strings.Repeat("{},", maxMessageValues-1) + "{}]", true},
	} {
		err := CheckJSON([]byte(test.text))
		refused, ok := errors.AsType[*messageError](err)
		if (err != nil) != test.refused || test.refused && (!ok || refused.status != http.StatusBadRequest || refused.code != codeInvalidRequest) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

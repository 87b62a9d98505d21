package schema

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// isAsserted reports whether values are checked for a format. The library knows more formats. The format regex is not
// checked: it would need a parser for the texts of clients.
func isAsserted(format string) bool {
	return slices.Contains([]string{
		"date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid",
		"json-pointer", "int32", "int64", "byte",
	}, format)
}

// formats returns the formats of OpenAPI, which the library does not know.
func formats() []*jsonschema.Format {
	return []*jsonschema.Format{
		{Name: "int32", Validate: inRange(math.MinInt32, math.MaxInt32)},
		{Name: "int64", Validate: inRange(math.MinInt64, math.MaxInt64)},
		{Name: "byte", Validate: func(v any) error {
			if text, ok := v.(string); ok {
				return checkBase64(text)
			}
			return nil
		}},
	}
}

var errFormat = errors.New("the value does not have the format")

// inRange returns the check of a format of integers.
func inRange(minimum, maximum int64) func(v any) error {
	low, high := newNumber(new(big.Rat).SetInt64(minimum)), newNumber(new(big.Rat).SetInt64(maximum))
	return func(v any) error {
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		if !IsSafeNumber(string(n)) || !IsInteger(string(n)) {
			return errFormat
		}
		// Most numbers are far from the bounds.
		if value, small := smallInteger(string(n)); small && value > math.MinInt32 && value < math.MaxInt32 {
			return nil
		}
		if low.compare(string(n)) < 0 || high.compare(string(n)) > 0 {
			return errFormat
		}
		return nil
	}
}

// decoders returns the content encodings that are checked.
func decoders() []*jsonschema.Decoder {
	return []*jsonschema.Decoder{
		{Name: "base64", Decode: func(text string) ([]byte, error) { return nil, checkBase64(text) }},
		{Name: "base64url", Decode: func(text string) ([]byte, error) { return nil, checkBase64URL(text) }},
	}
}

// checkBase64 checks base64 with padding (RFC 4648, section 4) without memory for its bytes.
func checkBase64(text string) error { return checkLetters(text, '+', '/', true) }

// checkBase64URL checks base64url, whose padding can be left out (RFC 4648, section 5).
func checkBase64URL(text string) error { return checkLetters(text, '-', '_', false) }

func checkLetters(text string, first, second byte, padded bool) error {
	data := strings.TrimRight(text, "=")
	padding := len(text) - len(data)
	if padding > 2 || (padded || padding > 0) && len(text)%4 != 0 || len(data)%4 == 1 {
		return errFormat
	}
	for i := range len(data) {
		if c := data[i]; c != first && c != second && !isBase64Letter(c) {
			return errFormat
		}
	}
	return nil
}

func isBase64Letter(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}

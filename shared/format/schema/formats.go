package schema

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// formats returns the formats of OpenAPI, which the library does not know. It also replaces the other formats that the
// library would check: every value has them. The library checks only date, date-time, time, duration, email, hostname,
// ipv4, ipv6, uri, uri-reference, uuid and json-pointer.
func formats() []*jsonschema.Format {
	all := []*jsonschema.Format{
		{Name: "int32", Validate: inRange(math.MinInt32, math.MaxInt32)},
		{Name: "int64", Validate: inRange(math.MinInt64, math.MaxInt64)},
		{Name: "byte", Validate: func(v any) error {
			if text, ok := v.(string); ok {
				return checkBase64(text)
			}
			return nil
		}},
	}
	for _, name := range []string{
		"relative-json-pointer", "period", "iri", "iri-reference", "uri-template", "semver",
	} {
		all = append(all, &jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	return all
}

var errFormat = errors.New("the value does not have the format")

// inRange returns the check of a format of integers.
func inRange(minimum, maximum int64) func(v any) error {
	low, high := new(big.Rat).SetInt64(minimum), new(big.Rat).SetInt64(maximum)
	return func(v any) error {
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		if value, err := n.Int64(); err == nil {
			if value < minimum || value > maximum {
				return errFormat
			}
			return nil
		}
		exact, ok := new(big.Rat).SetString(n.String())
		if !ok || !exact.IsInt() || exact.Cmp(low) < 0 || exact.Cmp(high) > 0 {
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

// checkBase64 checks base64 with padding (RFC 4648, section 4). It allocates no memory for the decoded bytes.
func checkBase64(text string) error { return checkLetters(text, '+', '/', true) }

// checkBase64URL checks base64url, with or without padding (RFC 4648, section 5).
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

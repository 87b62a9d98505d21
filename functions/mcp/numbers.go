package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/go-json-experiment/json/jsontext"
)

// plainNumbers removes the fraction or the exponent of each whole number in an argument: 5.0 and 5e0 become 5. In JSON
// Schema, 5.0 and 5e0 are integers (2020-12, validation, 6.1.1), and clients whose language has only one type of number
// send them. The API does not accept them as integers.
func plainNumbers(raw json.RawMessage) (json.RawMessage, error) {
	if !bytes.ContainsAny(raw, ".eE") {
		return raw, nil
	}
	var out bytes.Buffer
	from := jsontext.NewDecoder(bytes.NewReader(raw))
	to := jsontext.NewEncoder(&out, jsontext.PreserveRawStrings(true))
	for {
		var err error
		switch from.PeekKind() {
		case jsontext.KindBeginObject, jsontext.KindEndObject, jsontext.KindBeginArray, jsontext.KindEndArray:
			var token jsontext.Token
			if token, err = from.ReadToken(); err == nil {
				err = to.WriteToken(token)
			}
		default:
			var value jsontext.Value
			if value, err = from.ReadValue(); err == nil {
				err = to.WriteValue(wholeNumber(value))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("write the numbers of an argument: %w", err)
		}
		if from.StackDepth() == 0 {
			return bytes.TrimSpace(out.Bytes()), nil
		}
	}
}

// wholeNumber returns a whole number without a fraction or an exponent. It returns any other value unchanged, and also
// a whole number that is too large for an int64. Exponents are at most 308 here, because shared/format/mcp refuses
// messages with larger numbers. So big.Rat does not need much memory.
func wholeNumber(value jsontext.Value) jsontext.Value {
	if value.Kind() != jsontext.KindNumber || !bytes.ContainsAny(value, ".eE") {
		return value
	}
	number, ok := new(big.Rat).SetString(string(value))
	if !ok || !number.IsInt() || !number.Num().IsInt64() {
		return value
	}
	return jsontext.Value(number.Num().String())
}

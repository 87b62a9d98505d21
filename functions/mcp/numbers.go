package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/go-json-experiment/json/jsontext"
)

// maxWholeDigits is how many digits a number may have to be written anew: all of int64.
const maxWholeDigits = 19

// plain writes the whole numbers of an argument without a fraction or an exponent. 5.0 and 5e0 are integers to JSON Schema
// (2020-12, validation, 6.1.1), and clients that know one kind of number send 5 so; the API takes it for none.
func plain(raw json.RawMessage) (json.RawMessage, error) {
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
				err = to.WriteValue(whole(value))
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

// whole is a number without a fraction or an exponent if it has one of them and is whole, and any other value as it is.
// Messages have no number beyond 1e308.
func whole(value jsontext.Value) jsontext.Value {
	if value.Kind() != jsontext.KindNumber || !bytes.ContainsAny(value, ".eE") {
		return value
	}
	number, ok := new(big.Rat).SetString(string(value))
	if !ok || !number.IsInt() || len(number.Num().String()) > maxWholeDigits {
		return value
	}
	return jsontext.Value(number.Num().String())
}

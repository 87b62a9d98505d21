// Package metadata reads the data that callers store with consumers and with
// subscriptions for their own use: a JSON object with any fields (contract, 8).
//
// The package does not know consumers or subscriptions, and does not make the data searchable.
//
// This is the only file.
package metadata

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// MaxBytes is the maximum size of an object without insignificant space.
const MaxBytes = 1024

// Read returns the object without insignificant space and with numbers as they were
// written. It returns "" for a missing object or null. It adds mistakes to problems,
// for the field metadata. These do not contain the value, which could be secret.
func Read(problems *fault.Fields, raw json.RawMessage) string {
	const field = "metadata"
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var compact bytes.Buffer
	if !utf8.Valid(raw) || json.Compact(&compact, raw) != nil || compact.Bytes()[0] != '{' {
		problems.Add(field, "has to be a JSON object")
		return ""
	}
	if compact.Len() > MaxBytes {
		problems.Add(field, "has more than %d bytes when encoded", MaxBytes)
	}
	return compact.String()
}

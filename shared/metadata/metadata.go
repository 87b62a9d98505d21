// Package metadata reads what callers keep with consumers and with subscriptions for themselves: a JSON object whose
// fields are theirs (contract, 8).
//
// What it is not: it knows no consumer and no subscription, and nobody searches in what it has read.
//
// There is only this file.
package metadata

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/fault"
)

// MaxBytes bounds an object without insignificant space.
const MaxBytes = 1024

// Read gives the object without insignificant space, numbers as they were written, "" for none or null. What is
// wrong is added for the field metadata, without a value: it may be a secret.
func Read(wrong *fault.Fields, raw json.RawMessage) string {
	const field = "metadata"
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var compact bytes.Buffer
	if !utf8.Valid(raw) || json.Compact(&compact, raw) != nil || compact.Bytes()[0] != '{' {
		wrong.Add(field, "has to be a JSON object")
		return ""
	}
	if compact.Len() > MaxBytes {
		wrong.Add(field, "has more than %d bytes when encoded", MaxBytes)
	}
	return compact.String()
}

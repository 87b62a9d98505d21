package schema

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// MaxNumberBytes is the maximum length of a number that is safe (IsSafeNumber).
const MaxNumberBytes = 64

// IsSafeNumber reports whether a number is short and small enough for exact arithmetic: it has at most MaxNumberBytes, and
// a float64 can have its size (at most about 1.8e308). It returns false for 0 with an exponent, and for a number so near
// to 0 that a float64 rounds it to 0: its exact value could fill the memory.
func IsSafeNumber(number string) bool {
	if len(number) > MaxNumberBytes {
		return false
	}
	if !strings.ContainsAny(number, "eE") {
		return true
	}
	value, err := strconv.ParseFloat(number, 64)
	return err == nil && !math.IsInf(value, 0) && value != 0
}

// HasUnsafeNumber reports whether a value contains a number that is not safe (IsSafeNumber).
func HasUnsafeNumber(value any) bool {
	switch v := value.(type) {
	case json.Number:
		return !IsSafeNumber(v.String())
	case []any:
		for _, item := range v {
			if HasUnsafeNumber(item) {
				return true
			}
		}
	case map[string]any:
		for _, member := range v {
			if HasUnsafeNumber(member) {
				return true
			}
		}
	}
	return false
}

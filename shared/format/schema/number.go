package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// MaxNumberBytes is the maximum length of a number that is safe (IsSafeNumber).
const MaxNumberBytes = 64

// IsSafeNumber reports whether a number is short and small enough for exact arithmetic: at most MaxNumberBytes long, and
// between -1e308 and 1e308. It returns false for 0 with an exponent, and for a number that is so near to 0 that it is
// rounded to 0: its exact value could fill the memory.
func IsSafeNumber(number string) bool {
	if len(number) > MaxNumberBytes {
		return false
	}
	if len(number) < 19 && !strings.ContainsAny(number, "eE") {
		return true
	}
	value, err := strconv.ParseFloat(number, 64)
	return err == nil && !math.IsInf(value, 0) && (value != 0 || !strings.ContainsAny(number, "eE"))
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

// number is a number of a schema that values are compared with.
type number struct {
	exact *big.Rat
	float float64
	// integer is set if small is the exact number.
	integer bool
	small   int64
}

// newNumber returns nil for nil.
func newNumber(exact *big.Rat) *number {
	if exact == nil {
		return nil
	}
	n := &number{exact: exact}
	n.float, _ = exact.Float64()
	if exact.IsInt() && exact.Num().IsInt64() {
		n.integer, n.small = true, exact.Num().Int64()
	}
	return n
}

// smallInteger returns the value of an integer without an exponent or a fraction that has at most 18 digits.
func smallInteger(text string) (value int64, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		value = value*10 + int64(digits[i]-'0')
	}
	if len(digits) < len(text) {
		value = -value
	}
	return value, true
}

// compare compares a JSON number with n, like cmp.Compare. The number has to be safe (IsSafeNumber). Numbers whose
// nearest float64 differ are in the order of these. Only the others need exact arithmetic.
func (n *number) compare(text string) int {
	if value, ok := smallInteger(text); ok && n.integer {
		switch {
		case value < n.small:
			return -1
		case value > n.small:
			return 1
		}
		return 0
	}
	float, err := strconv.ParseFloat(text, 64)
	if err == nil && float < n.float {
		return -1
	}
	if err == nil && float > n.float {
		return 1
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0
	}
	return exact.Cmp(n.exact)
}

// divides reports whether a JSON number is a multiple of n. The number has to be safe (IsSafeNumber).
func (n *number) divides(text string) bool {
	if value, ok := smallInteger(text); ok && n.integer && n.small != 0 {
		return value%n.small == 0
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok || n.exact.Sign() == 0 {
		return true
	}
	return exact.Quo(exact, n.exact).IsInt()
}

// decimal is a number without leading and trailing zeros: digits times ten to the power of exponent.
type decimal struct {
	negative bool
	digits   string // "" for 0
	exponent int
}

// readDecimal reads a JSON number. It returns false for a number with an exponent that int32 cannot have.
func readDecimal(text string) (d decimal, ok bool) {
	text, d.negative = strings.TrimPrefix(text, "-"), strings.HasPrefix(text, "-")
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, err := strconv.ParseInt(text[at+1:], 10, 32)
		if err != nil {
			return d, false
		}
		d.exponent, text = int(exponent), text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits)
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// IsInteger reports whether a JSON number has no fraction. 1.0 and 1e2 have none.
func IsInteger(text string) bool {
	if !strings.ContainsAny(text, ".eE") {
		return true
	}
	d, ok := readDecimal(text)
	return ok && d.exponent >= 0
}

// appendNumber appends a spelling of a JSON number that is the same for all equal numbers.
func appendNumber(dst []byte, text string) []byte {
	d, ok := readDecimal(text)
	if !ok {
		return append(dst, text...)
	}
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits...)
	if d.digits == "" {
		dst = append(dst, '0')
	}
	if d.exponent != 0 {
		dst = strconv.AppendInt(append(dst, 'e'), int64(d.exponent), 10)
	}
	return dst
}

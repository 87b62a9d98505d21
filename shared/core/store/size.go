package store

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ReadUnits returns the read units of a consistent read, at least 1. size is in bytes.
func ReadUnits(size int) float64 { return float64(max(1, (size+4095)/4096)) }

// WriteUnits returns the write units of a write outside a transaction, at least 1. size is in bytes.
func WriteUnits(size int) float64 { return float64(max(1, (size+1023)/1024)) }

// Size returns the billed size of an item in DynamoDB, in bytes: the lengths of the attribute names in UTF-8, plus the
// sizes of the values.
func Size(item Item) int {
	n := 0
	for name, v := range item {
		n += len(name) + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberM:
		n := 3
		for name, e := range v.Value {
			n += 1 + len(name) + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberL:
		n := 3
		for _, e := range v.Value {
			n += 1 + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberSS:
		n := 0
		for _, e := range v.Value {
			n += len(e)
		}
		return n
	}
	return 1 // booleans and null; no record has a set of numbers or of binaries
}

// numberSize returns one byte for each two significant digits, plus one byte,
// plus one for a minus sign. Leading and trailing zeros are not significant.
func numberSize(text string) int {
	unsigned, negative := strings.CutPrefix(text, "-")
	digits := strings.Trim(strings.ReplaceAll(unsigned, ".", ""), "0")
	size := (len(digits)+1)/2 + 1
	if negative {
		size++
	}
	return size
}

package store

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Condition is a predicate on an item as it is before a write. It is data, so
// that each backend can evaluate it in its own way: the kinds below are all.
type Condition interface{ condition() }

type (
	// existence holds when the item (or the attribute at path) is there.
	existence struct {
		path Path // nil asks for the item
		want bool
	}
	// comparison holds when the attribute is there and compares so.
	comparison struct {
		path  Path
		op    string // one of = <> < <= > >=
		value types.AttributeValue
		err   error
	}
	// combination holds when all (any false) or any of its parts hold.
	combination struct {
		parts []Condition
		any   bool
	}
)

func (existence) condition()   {}
func (comparison) condition()  {}
func (combination) condition() {}

// Exists holds for an item that is there.
func Exists() Condition { return existence{want: true} }

// Absent holds where there is no item.
func Absent() Condition { return existence{} }

// Has holds when the attribute is there.
func Has(path Path) Condition { return existence{path: path, want: true} }

// Lacks holds when the attribute is absent, or the item is.
func Lacks(path Path) Condition { return existence{path: path} }

// Equal holds when the attribute is there and equals value.
func Equal(path Path, value any) Condition { return compare(path, "=", value) }

// NotEqual holds when the attribute is absent or differs from value.
func NotEqual(path Path, value any) Condition { return compare(path, "<>", value) }

// Less holds when the attribute is there and below value. Numbers compare as
// numbers, strings by their bytes.
func Less(path Path, value any) Condition { return compare(path, "<", value) }

// AtMost holds when the attribute is there and not above value.
func AtMost(path Path, value any) Condition { return compare(path, "<=", value) }

// AtLeast holds when the attribute is there and not below value.
func AtLeast(path Path, value any) Condition { return compare(path, ">=", value) }

// And holds when all of cs do.
func And(cs ...Condition) Condition { return combination{parts: cs} }

// Or holds when one of cs does.
func Or(cs ...Condition) Condition { return combination{parts: cs, any: true} }

func compare(path Path, op string, value any) Condition {
	av, err := encodeValue(value)
	if err != nil {
		err = fmt.Errorf("encode %v: %w", path, err)
	}
	return comparison{path: path, op: op, value: av, err: err}
}

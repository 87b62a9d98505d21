package store

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Condition is a predicate on an item before a write. It is data, so that each backend
// can evaluate it in its own way. The kinds below are all kinds of conditions.
type Condition interface{ condition() }

type (
	// existence holds if the item (or the attribute at path) exists. If
	// want is false, it holds if the item or attribute does not exist.
	existence struct {
		path Path // nil means the item itself
		want bool
	}
	// comparison holds if the attribute exists and the comparison is true. <> also holds if the attribute does not exist.
	comparison struct {
		path  Path
		op    string // one of = <> < <= > >=
		value types.AttributeValue
		err   error
	}
	// combination holds if all of its parts hold. If any is true, it holds if at least one part holds.
	combination struct {
		parts []Condition
		any   bool
	}
)

func (existence) condition()   {}
func (comparison) condition()  {}
func (combination) condition() {}

// Exists holds for an item that exists.
func Exists() Condition { return existence{want: true} }

// Absent holds if there is no item.
func Absent() Condition { return existence{} }

// Has holds if the attribute exists.
func Has(path Path) Condition { return existence{path: path, want: true} }

// Lacks holds if the attribute or the whole item does not exist.
func Lacks(path Path) Condition { return existence{path: path} }

// Equal holds if the attribute exists and equals value.
func Equal(path Path, value any) Condition { return compare(path, "=", value) }

// NotEqual holds if the attribute does not exist or differs from value.
func NotEqual(path Path, value any) Condition { return compare(path, "<>", value) }

// Less holds if the attribute exists and is less than value. Numbers compare as numbers, strings by their bytes.
func Less(path Path, value any) Condition { return compare(path, "<", value) }

// AtMost holds if the attribute exists and is not greater than value.
func AtMost(path Path, value any) Condition { return compare(path, "<=", value) }

// AtLeast holds if the attribute exists and is not less than value.
func AtLeast(path Path, value any) Condition { return compare(path, ">=", value) }

// And holds if all conditions hold.
func And(cs ...Condition) Condition { return combination{parts: cs} }

// Or holds if at least one condition holds.
func Or(cs ...Condition) Condition { return combination{parts: cs, any: true} }

func compare(path Path, op string, value any) Condition {
	av, err := encodeValue(value)
	if err != nil {
		err = fmt.Errorf("encode %v: %w", path, err)
	}
	return comparison{path: path, op: op, value: av, err: err}
}

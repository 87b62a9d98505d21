package store

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// These limits of DynamoDB can depend on stored data, so backends enforce them. This package also checks the size of
// the items of puts.
const (
	// MaxItemBytes is the maximum Size of an item, also after an update.
	MaxItemBytes = 400 << 10
	// MaxTransactionBytes is the maximum total size of the items after a transaction.
	MaxTransactionBytes = 4 << 20
)

// These limits of DynamoDB are enforced by this package, maxExpressionBytes only for updates.
const (
	maxPartitionKeyBytes = 2048
	maxSortKeyBytes      = 1024
	maxExpressionBytes   = 4096
)

// valid returns an error for writes that DynamoDB would refuse, or would interpret differently from the other
// backends. It is called before a backend receives the writes, so all backends behave alike, even if an emulator is
// too lenient.
func valid(writes []Write) error {
	if len(writes) > MaxWrites {
		return fmt.Errorf("store: %d writes in one transaction, at most %d are possible", len(writes), MaxWrites)
	}
	seen := make(map[Key]bool, len(writes))
	for _, w := range writes {
		if err := w.valid(); err != nil {
			return fmt.Errorf("%s %s: %w", w.Kind, w.Key.SK, err)
		}
		if seen[w.Key] {
			return fmt.Errorf("store: two writes to %s %s in one transaction", w.Key.PK, w.Key.SK)
		}
		seen[w.Key] = true
	}
	return nil
}

func (w Write) valid() error {
	if w.err != nil {
		return w.err
	}
	if err := w.Key.valid(); err != nil {
		return err
	}
	if err := validCondition(w.Condition); err != nil {
		return err
	}
	switch w.Kind {
	case PutKind:
		if size := Size(w.Item); size > MaxItemBytes {
			return TooLarge(size)
		}
		for name, v := range w.Item {
			if err := validIndexKey(name, v); err != nil {
				return err
			}
		}
	case UpdateKind:
		return validChanges(w.Changes)
	case CheckKind:
		if w.Condition == nil {
			return errors.New("store: a check without a condition")
		}
	case DeleteKind:
	}
	return nil
}

func (k Key) valid() error {
	switch {
	case k.PK == "" || k.SK == "":
		return errors.New("store: an empty key")
	case len(k.PK) > maxPartitionKeyBytes:
		return fmt.Errorf("store: a partition key of %d bytes, at most %d are possible", len(k.PK), maxPartitionKeyBytes)
	case len(k.SK) > maxSortKeyBytes:
		return fmt.Errorf("store: a sort key of %d bytes, at most %d are possible", len(k.SK), maxSortKeyBytes)
	}
	return nil
}

func validChanges(changes []Change) error {
	if len(changes) == 0 {
		return errors.New("store: an update without a change")
	}
	for i, c := range changes {
		if len(c.Path) == 0 {
			return errors.New("store: a change without a path")
		}
		if c.Path[0] == pkAttribute || c.Path[0] == skAttribute {
			return fmt.Errorf("store: %s is part of the key and cannot change", c.Path[0])
		}
		if len(c.Path) == 1 && c.Kind == SetKind {
			if err := validIndexKey(c.Path[0], c.Value); err != nil {
				return err
			}
		}
		for _, other := range changes[:i] {
			if overlap(c.Path, other.Path) {
				return fmt.Errorf("store: the paths %v and %v of one update overlap", other.Path, c.Path)
			}
		}
	}
	if n := len(*new(expression).update(changes)); n > maxExpressionBytes {
		return fmt.Errorf("store: an update of %d bytes, at most %d are possible", n, maxExpressionBytes)
	}
	return nil
}

// overlap reports whether one path is a prefix of the other.
func overlap(a, b Path) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// validIndexKey returns an error if name is a key attribute of DueIndex, and v is not a text or is empty.
func validIndexKey(name string, v types.AttributeValue) error {
	if pk, sk := DueIndex.KeyAttributes(); name != pk && name != sk {
		return nil
	}
	if s, ok := v.(*types.AttributeValueMemberS); !ok || s.Value == "" {
		return fmt.Errorf("store: %s is a key of an index and has to be a text that is not empty", name)
	}
	return nil
}

func validCondition(c Condition) error {
	switch c := c.(type) {
	case comparison:
		if c.err != nil {
			return c.err
		}
		if c.op == "=" || c.op == "<>" {
			return nil
		}
		switch c.value.(type) {
		case *types.AttributeValueMemberS, *types.AttributeValueMemberN, *types.AttributeValueMemberB:
			return nil
		}
		return fmt.Errorf("store: %v cannot be compared by %s", c.path, c.op)
	case combination:
		if len(c.parts) == 0 {
			return errors.New("store: a combination of no conditions")
		}
		for _, part := range c.parts {
			if err := validCondition(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// TooLarge returns the error for an item that is larger than MaxItemBytes.
func TooLarge(size int) error {
	return fmt.Errorf("store: an item of %d bytes, at most %d are possible", size, MaxItemBytes)
}

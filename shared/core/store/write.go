package store

import (
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// WriteKind is the kind of a Write.
type WriteKind int

// These are the kinds of writes in DynamoDB's transactions.
const (
	PutKind WriteKind = iota
	UpdateKind
	DeleteKind
	CheckKind
)

func (k WriteKind) String() string {
	return [...]string{"put", "update", "delete", "check"}[k]
}

// Write is one write of a transaction. Create it with Create, Put,
// Update, Upsert, Delete or Check, and refine it with If, Else and Final.
type Write struct {
	Kind WriteKind
	Key  Key
	// Item is the item that a put stores, including its key.
	Item Item
	// Changes are the changes of an update.
	Changes []Change
	// Condition must hold for the item before the write. nil means no condition.
	Condition Condition

	elseErr error // the error that Else sets
	err     error // of the encoding of a record or a value; the commit returns it
	// unknown has the attributes of Item that come from the record's UnknownAttributes.
	unknown Item
	// final marks the commit that makes a request's change (Write.Final).
	final bool
}

// Put stores record at key and replaces any earlier item. If record was read from key,
// the item keeps the attributes that the record's type does not know (UnknownAttributes).
func Put(key Key, record any) Write {
	item, unknown, err := encode(key, record)
	return Write{Kind: PutKind, Key: key, Item: item, unknown: unknown, err: err}
}

// Create stores record at key. It fails if there is an item at key, even if
// the item's ttl has passed and DynamoDB has not deleted the item yet.
func Create(key Key, record any) Write {
	return Put(key, record).If(Absent())
}

// Update changes attributes of an item that must exist.
func Update(key Key, changes ...Change) Write {
	return Upsert(key, changes...).If(Exists())
}

// Upsert changes attributes of an item. It creates the item if it does not exist.
func Upsert(key Key, changes ...Change) Write {
	w := Write{Kind: UpdateKind, Key: key, Changes: changes}
	for _, c := range changes {
		if c.err != nil {
			w.err = c.err
		}
	}
	return w
}

// Delete deletes the item, if it exists.
func Delete(key Key) Write { return Write{Kind: DeleteKind, Key: key} }

// Check changes nothing. It fails the transaction unless c holds.
func Check(key Key, c Condition) Write {
	return Write{Kind: CheckKind, Key: key, Condition: c}
}

// If adds a condition. All conditions of a write have to hold.
func (w Write) If(c Condition) Write {
	if w.Condition == nil {
		w.Condition = c
	} else {
		w.Condition = And(w.Condition, c)
	}
	return w
}

// Else sets the error that Commit returns if this write's condition is false.
func (w Write) Else(err error) Write {
	w.elseErr = err
	return w
}

// Final marks the commit with this write as the deciding commit of the request: the request's change
// happens with this commit or not at all. Commits before the deciding commit only prepare the change: clients
// see no effect of them unless the deciding commit succeeds. No commit follows the deciding commit: for further
// work, it begins a durable operation. The audit record of a successful change is such a write.
func (w Write) Final() Write {
	w.final = true
	return w
}

// ChangeKind is the kind of a Change.
type ChangeKind int

// These are the actions of DynamoDB's update expressions that the product uses.
const (
	SetKind ChangeKind = iota
	RemoveKind
	AddKind
)

// Change is the change of one attribute in an update.
type Change struct {
	Kind  ChangeKind
	Path  Path
	Value types.AttributeValue

	err error // of the encoding of Value
}

// Path is an attribute's name, or the names that lead to an entry of a map.
type Path []string

// At returns the Path with these names.
func At(names ...string) Path { return names }

// Set stores value at path. The maps that contain it must exist.
func Set(path Path, value any) Change {
	av, err := encodeValue(value)
	if err != nil {
		err = fmt.Errorf("encode %v: %w", path, err)
	}
	return Change{Kind: SetKind, Path: path, Value: av, err: err}
}

// Remove deletes the attribute at path, if it exists.
func Remove(path Path) Change { return Change{Kind: RemoveKind, Path: path} }

// Add adds n to the number at path. An absent number counts as 0.
func Add(path Path, n int64) Change {
	return Change{Kind: AddKind, Path: path, Value: &types.AttributeValueMemberN{Value: fmt.Sprint(n)}}
}

// encode returns the item for a record, and the attributes of the item that come from the record's UnknownAttributes.
func encode(key Key, record any) (item, unknown Item, err error) {
	item, err = attributevalue.MarshalMap(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", key.SK, err)
	}
	if record != nil {
		unknown = restoreUnknown(reflect.ValueOf(record), &types.AttributeValueMemberM{Value: item}, key)
	}
	item[pkAttribute] = &types.AttributeValueMemberS{Value: key.PK}
	item[skAttribute] = &types.AttributeValueMemberS{Value: key.SK}
	return item, unknown, nil
}

// KeyOf returns an item's primary key. A part that the item does not have is "".
func KeyOf(item Item) Key {
	text := func(name string) string {
		if s, ok := item[name].(*types.AttributeValueMemberS); ok {
			return s.Value
		}
		return ""
	}
	return Key{PK: text(pkAttribute), SK: text(skAttribute)}
}

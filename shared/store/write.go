package store

import (
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// WriteKind is what a Write does to its item.
type WriteKind int

// The kinds of DynamoDB's transactions.
const (
	PutKind WriteKind = iota
	UpdateKind
	DeleteKind
	CheckKind
)

func (k WriteKind) String() string {
	return [...]string{"put", "update", "delete", "check"}[k]
}

// Write is one part of a transaction. Make it with Create, Put, Update, Upsert,
// Delete or Check and refine it with If and Else.
type Write struct {
	Kind WriteKind
	Key  Key
	// Item is what a put stores, with its key.
	Item Item
	// Changes is what an update does.
	Changes []Change
	// Condition must hold for the item as it is before; nil always holds.
	Condition Condition

	otherwise error
	err       error
	// rest are those attributes of Item that the record's type does not know.
	rest Item
	// decides marks the commit that a request's change is (Write.Decides).
	decides bool
}

// Put stores record at key, whatever was there. A record that was read from key keeps
// what its type does not know of it (Rest).
func Put(key Key, record any) Write {
	item, rest, err := encode(key, record)
	return Write{Kind: PutKind, Key: key, Item: item, rest: rest, err: err}
}

// Create stores record at key and fails when there is an item already, even
// one past its ttl that nothing has deleted yet.
func Create(key Key, record any) Write {
	return Put(key, record).If(Absent())
}

// Update changes attributes of an item that must exist.
func Update(key Key, changes ...Change) Write {
	return Upsert(key, changes...).If(Exists())
}

// Upsert changes attributes of an item, which is made when it is absent.
func Upsert(key Key, changes ...Change) Write {
	w := Write{Kind: UpdateKind, Key: key, Changes: changes}
	for _, c := range changes {
		if c.err != nil {
			w.err = c.err
		}
	}
	return w
}

// Delete removes the item, if there is one.
func Delete(key Key) Write { return Write{Kind: DeleteKind, Key: key} }

// Check changes nothing and fails the transaction unless c holds.
func Check(key Key, c Condition) Write {
	return Write{Kind: CheckKind, Key: key, Condition: c}
}

// If adds a condition; all of a write's conditions have to hold.
func (w Write) If(c Condition) Write {
	if w.Condition == nil {
		w.Condition = c
	} else {
		w.Condition = And(w.Condition, c)
	}
	return w
}

// Else names the error that Commit answers when this write's condition is
// false.
func (w Write) Else(err error) Write {
	w.otherwise = err
	return w
}

// Decides marks the commit with this write as the one that is the request's
// change: it happened with this commit, or not at all. Commits before it prepare
// it and mean nothing without it. There is none after it: what is left to do is a
// durable operation, begun in it. The audit record of a success is such a write.
func (w Write) Decides() Write {
	w.decides = true
	return w
}

// ChangeKind is what a Change does to an attribute.
type ChangeKind int

// The actions of DynamoDB's update expressions that are used here.
const (
	SetKind ChangeKind = iota
	RemoveKind
	AddKind
)

// Change is one part of an update.
type Change struct {
	Kind  ChangeKind
	Path  Path
	Value types.AttributeValue

	err error
}

// Path is an attribute's name, or the names that lead to an entry of a map.
type Path []string

// At makes a Path.
func At(names ...string) Path { return names }

// Set stores value at path. The maps that lead there must exist.
func Set(path Path, value any) Change {
	av, err := encodeValue(value)
	if err != nil {
		err = fmt.Errorf("encode %v: %w", path, err)
	}
	return Change{Kind: SetKind, Path: path, Value: av, err: err}
}

// Remove deletes the attribute at path, if there is one.
func Remove(path Path) Change { return Change{Kind: RemoveKind, Path: path} }

// Add adds n to the number at path, which counts as 0 when it is absent.
func Add(path Path, n int64) Change {
	return Change{Kind: AddKind, Path: path, Value: &types.AttributeValueMemberN{Value: fmt.Sprint(n)}}
}

// encode gives a record's item, and which attributes of it are of its Rest.
func encode(key Key, record any) (item, rest Item, err error) {
	item, err = attributevalue.MarshalMap(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", key.SK, err)
	}
	if record != nil {
		rest = giveRest(reflect.ValueOf(record), &types.AttributeValueMemberM{Value: item}, key)
	}
	item[pkAttribute] = &types.AttributeValueMemberS{Value: key.PK}
	item[skAttribute] = &types.AttributeValueMemberS{Value: key.SK}
	return item, rest, nil
}

// KeyOf gives an item's primary key; parts that are absent are "".
func KeyOf(item Item) Key {
	text := func(name string) string {
		if s, ok := item[name].(*types.AttributeValueMemberS); ok {
			return s.Value
		}
		return ""
	}
	return Key{PK: text(pkAttribute), SK: text(skAttribute)}
}

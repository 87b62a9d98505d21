package store

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// UnknownAttributes has the attributes of a stored record for which the record's type has no field. For some minutes
// of each update, and after a rollback, two releases write one table. The older release changes records that the newer
// release wrote, and must keep the attributes that it does not know. So every record type, and every type nested in
// it, embeds an UnknownAttributes. Reading a record fills it, and writing the record restores the attributes. The
// attributes of an item are restored only to the item from which they were read. The attributes of a value within an
// item are restored wherever the value is copied to, such as a served build that becomes an earlier build.
//
// Code that creates a new record instead of changing a copy of the record that was read must copy the
// UnknownAttributes of the earlier record to the new one, unless the new record represents another thing.
//
// An Update leaves all attributes that it does not name unchanged,
// so it needs UnknownAttributes only for the values that it sets.
//
// The zero value is empty. An UnknownAttributes is immutable. Two values are equal (==) if one is a copy of the other.
type UnknownAttributes struct{ set *unknownSet }

// unknownSet holds the attributes that a type does not know.
type unknownSet struct {
	// key is the key of the item from which the attributes were read, so that they do not reach another item. It is
	// the zero Key for a value within an item.
	key        Key
	attributes Item
}

var unknownAttributesType, timeType = reflect.TypeFor[UnknownAttributes](), reflect.TypeFor[time.Time]()

// member is an attribute that a struct type knows.
type member struct {
	name  string
	index []int
}

// shape describes a struct type. known has the attributes that the type has fields for, each once. nested
// has the known attributes whose values can contain UnknownAttributes. unknownFields has the locations of
// the type's own UnknownAttributes and of those of embedded structs, which share its attributes.
type shape struct {
	known, nested []member
	unknownFields [][]int
}

// shapeOf returns the shape of a struct type. It caches shapes,
// because computing one costs as much as decoding a record.
var shapeOf = memoize(newShape)

// memoize returns f with a cache of its results, as sync.OnceValue does for a function
// without an argument. f must always return the same result for the same key.
func memoize[K comparable, V any](f func(K) V) func(K) V {
	var mu sync.RWMutex
	results := map[K]V{}
	return func(k K) V {
		mu.RLock()
		result, ok := results[k]
		mu.RUnlock()
		if !ok {
			result = f(k)
			mu.Lock()
			results[k] = result
			mu.Unlock()
		}
		return result
	}
}

func newShape(t reflect.Type) *shape {
	s := &shape{known: make([]member, 0, t.NumField())}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("dynamodbav"), ",")
		switch {
		case field.Type == unknownAttributesType && field.Anonymous:
			s.unknownFields = append(s.unknownFields, field.Index)
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			embedded := newShape(field.Type)
			for _, m := range embedded.known {
				s.known = append(s.known, member{m.name, append(field.Index[:1:1], m.index...)})
			}
			for _, index := range embedded.unknownFields {
				s.unknownFields = append(s.unknownFields, append(field.Index[:1:1], index...))
			}
		case name == "":
			s.known = append(s.known, member{field.Name, field.Index})
		default:
			s.known = append(s.known, member{name, field.Index})
		}
	}
	// As in the encoder, a field hides fields with the same attribute
	// in embedded structs. So each attribute is in known once.
	slices.SortStableFunc(s.known, func(a, b member) int { return cmp.Compare(len(a.index), len(b.index)) })
	names := map[string]bool{}
	s.known = slices.DeleteFunc(s.known, func(m member) bool {
		hidden := names[m.name]
		names[m.name] = true
		return hidden
	})
	for _, m := range s.known {
		if mayContainUnknown(t.FieldByIndex(m.index).Type) {
			s.nested = append(s.nested, m)
		}
	}
	return s
}

// mayContainUnknown reports whether values of the type can contain UnknownAttributes.
func mayContainUnknown(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Interface:
		return true
	case reflect.Struct:
		return t != timeType
	default:
		return false
	}
}

// decodeItem decodes an item into record, a pointer to a struct or to a map.
// Attributes that the struct does not know go into its UnknownAttributes.
func decodeItem(item Item, record any) error {
	if err := attributevalue.UnmarshalMap(item, record); err != nil {
		return err
	}
	collectUnknown(reflect.ValueOf(record), &types.AttributeValueMemberM{Value: item}, KeyOf(item))
	return nil
}

// AllAttributes returns a record's attributes as plain values, including its UnknownAttributes. hasUnknown reports
// whether there are UnknownAttributes. It is for callers that store a record in another form than the table does.
func AllAttributes(record any) (attributes map[string]any, hasUnknown bool, err error) {
	known, err := attributevalue.MarshalMap(record)
	if err != nil {
		return nil, false, fmt.Errorf("encode a record: %w", err)
	}
	all, err := encodeValue(record)
	if err != nil {
		return nil, false, fmt.Errorf("encode a record: %w", err)
	}
	if err := attributevalue.Unmarshal(all, &attributes); err != nil {
		return nil, false, fmt.Errorf("encode a record: %w", err)
	}
	return attributes, !equal(all, &types.AttributeValueMemberM{Value: known}), nil
}

// collectUnknown fills the UnknownAttributes in v from the value that v was
// decoded from. key is the item's key, or the zero Key for a value within an item.
func collectUnknown(v reflect.Value, from Value, key Key) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collectUnknown(v.Elem(), from, key)
		}
	case reflect.Struct:
		m, ok := from.(*types.AttributeValueMemberM)
		if !ok {
			return
		}
		sh := shapeOf(v.Type())
		if len(sh.unknownFields) > 0 {
			unknown := reflect.ValueOf(unknownIn(sh.known, m.Value, key))
			for _, index := range sh.unknownFields {
				v.FieldByIndex(index).Set(unknown)
			}
		}
		for _, k := range sh.nested {
			if m.Value[k.name] != nil {
				collectUnknown(v.FieldByIndex(k.index), m.Value[k.name], Key{})
			}
		}
	case reflect.Slice, reflect.Array:
		if l, ok := from.(*types.AttributeValueMemberL); ok && len(l.Value) == v.Len() && mayContainUnknown(v.Type().Elem()) {
			for i := range l.Value {
				collectUnknown(v.Index(i), l.Value[i], Key{})
			}
		}
	case reflect.Map:
		m, ok := from.(*types.AttributeValueMemberM)
		if !ok || v.Type().Key().Kind() != reflect.String || !mayContainUnknown(v.Type().Elem()) {
			return
		}
		for _, name := range v.MapKeys() {
			// A value in a map cannot be changed in place, so replace it with a changed copy.
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(name))
			collectUnknown(value, m.Value[name.String()], Key{})
			v.SetMapIndex(name, value)
		}
	default:
	}
}

// unknownIn returns UnknownAttributes with the attributes in from that are not known.
func unknownIn(known []member, from Item, key Key) UnknownAttributes {
	isKey := func(name string) bool { return key != (Key{}) && (name == pkAttribute || name == skAttribute) }
	count := 0
	for _, k := range known {
		if from[k.name] != nil && !isKey(k.name) {
			count++
		}
	}
	if key != (Key{}) {
		count += 2 // the two attributes of the item's key, whether or not the type has fields for them
	}
	if count == len(from) {
		return UnknownAttributes{}
	}
	var unknown Item
	for name, value := range from {
		if isKey(name) || slices.ContainsFunc(known, func(m member) bool { return m.name == name }) {
			continue
		}
		if unknown == nil {
			unknown = Item{}
		}
		unknown[name] = value
	}
	if unknown == nil {
		return UnknownAttributes{}
	}
	return UnknownAttributes{&unknownSet{key, unknown}}
}

// restoreUnknown adds the UnknownAttributes in v to the encoded form
// of v, and returns the attributes that it added at the top level.
func restoreUnknown(v reflect.Value, to Value, key Key) (restored Item) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return restoreUnknown(v.Elem(), to, key)
		}
	case reflect.Struct:
		m, ok := to.(*types.AttributeValueMemberM)
		if !ok {
			return nil
		}
		sh := shapeOf(v.Type())
		restored = restoreFields(v, sh.unknownFields, m.Value, key)
		for _, k := range sh.nested {
			if m.Value[k.name] != nil {
				restoreUnknown(v.FieldByIndex(k.index), m.Value[k.name], Key{})
			}
		}
	case reflect.Slice, reflect.Array:
		if l, ok := to.(*types.AttributeValueMemberL); ok && len(l.Value) == v.Len() && mayContainUnknown(v.Type().Elem()) {
			for i := range l.Value {
				restoreUnknown(v.Index(i), l.Value[i], Key{})
			}
		}
	case reflect.Map:
		if m, ok := to.(*types.AttributeValueMemberM); ok && v.Type().Key().Kind() == reflect.String &&
			mayContainUnknown(v.Type().Elem()) {
			for _, name := range v.MapKeys() {
				restoreUnknown(v.MapIndex(name), m.Value[name.String()], Key{})
			}
		}
	default:
	}
	return restored
}

// restoreFields adds the unknown attributes of a struct to its encoded form, except attributes that the encoded form
// has already. fields are the locations of the UnknownAttributes. It returns the attributes that it added.
func restoreFields(v reflect.Value, fields [][]int, to Item, key Key) (restored Item) {
	for _, index := range fields {
		unknown, _ := v.FieldByIndex(index).Interface().(UnknownAttributes)
		set := unknown.set
		if set == nil || key != (Key{}) && set.key != (Key{}) && set.key != key {
			continue // the attributes belong to another item
		}
		for name, value := range set.attributes {
			if to[name] != nil {
				continue
			}
			to[name] = value
			if restored == nil {
				restored = Item{}
			}
			restored[name] = value
		}
	}
	return restored
}

// encodeValue encodes a value, including the UnknownAttributes in it.
func encodeValue(value any) (Value, error) {
	av, err := attributevalue.Marshal(value)
	if err == nil && value != nil {
		restoreUnknown(reflect.ValueOf(value), av, Key{})
	}
	return av, err
}

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

// Rest is what a stored record has beside the attributes that its type knows. For
// some minutes of each update, and after a rollback, two releases write one table:
// the older one changes records that the newer one wrote, and has to leave in them
// what it has never heard of. So every type of record embeds a Rest, and so do the
// types of what stands within one: reading fills it, and writing gives it back, to
// the item that it was read from and to no other, and to values within items wherever
// they are copied to, such as a served build that becomes an earlier one.
//
// Who makes a record anew instead of changing a copy of what was read gives it the
// earlier one's Rest, unless it is another thing by now.
//
// An update needs none of this for the attributes that it does not name. It does
// for the values that it sets.
//
// The zero value is nothing. A Rest is immutable; two are equal (==) where one is a
// copy of the other.
type Rest struct{ held *unknown }

// unknown are the attributes that a type does not know.
type unknown struct {
	// key is the item's, the zero Key within one: what one item has is not another's.
	key        Key
	attributes Item
}

var restType, timeType = reflect.TypeFor[Rest](), reflect.TypeFor[time.Time]()

// member is an attribute that a type of struct knows.
type member struct {
	name  string
	index []int
}

// shape is what is asked of a type of struct: the attributes that it knows, each once, those of them that can have a Rest within, and
// where it keeps the rest: its own Rest and those of structs embedded in it, which share its attributes.
type shape struct {
	known, deep []member
	rests       [][]int
}

// shapeOf returns the shape of a type of struct. It is worked out once for each type: it costs as much as decoding a record.
var shapeOf = once(newShape)

// once returns f with a memory of its results, as sync.OnceValue does for a function without an argument. f has to return the same for the same key.
func once[K comparable, V any](f func(K) V) func(K) V {
	var guard sync.RWMutex
	results := map[K]V{}
	return func(k K) V {
		guard.RLock()
		result, ok := results[k]
		guard.RUnlock()
		if !ok {
			result = f(k)
			guard.Lock()
			results[k] = result
			guard.Unlock()
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
		case field.Type == restType && field.Anonymous:
			s.rests = append(s.rests, field.Index)
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			within := newShape(field.Type)
			for _, m := range within.known {
				s.known = append(s.known, member{m.name, append(field.Index[:1:1], m.index...)})
			}
			for _, index := range within.rests {
				s.rests = append(s.rests, append(field.Index[:1:1], index...))
			}
		case name == "":
			s.known = append(s.known, member{field.Name, field.Index})
		default:
			s.known = append(s.known, member{name, field.Index})
		}
	}
	// A field hides fields of the same attribute in embedded structs, as in encoding: each attribute is known once.
	slices.SortStableFunc(s.known, func(a, b member) int { return cmp.Compare(len(a.index), len(b.index)) })
	names := map[string]bool{}
	s.known = slices.DeleteFunc(s.known, func(m member) bool {
		hidden := names[m.name]
		names[m.name] = true
		return hidden
	})
	for _, m := range s.known {
		if mayKeep(t.FieldByIndex(m.index).Type) {
			s.deep = append(s.deep, m)
		}
	}
	return s
}

// mayKeep reports whether values of the type can have a Rest within.
func mayKeep(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Interface:
		return true
	case reflect.Struct:
		return t != timeType
	default:
		return false
	}
}

// decodeItem reads an item into record, a pointer to a struct or to a map, with what
// the struct does not know in its Rest.
func decodeItem(item Item, record any) error {
	if err := attributevalue.UnmarshalMap(item, record); err != nil {
		return err
	}
	takeRest(reflect.ValueOf(record), &types.AttributeValueMemberM{Value: item}, KeyOf(item))
	return nil
}

// Whole gives a record's attributes as plain values, with those that its type does not know, and whether
// there are any of these: for who keeps a record in another form than the table's.
func Whole(record any) (attributes map[string]any, more bool, err error) {
	known, err := attributevalue.MarshalMap(record)
	if err != nil {
		return nil, false, fmt.Errorf("encode a record: %w", err)
	}
	whole, err := encodeValue(record)
	if err != nil {
		return nil, false, fmt.Errorf("encode a record: %w", err)
	}
	if err := attributevalue.Unmarshal(whole, &attributes); err != nil {
		return nil, false, fmt.Errorf("encode a record: %w", err)
	}
	return attributes, !equal(whole, &types.AttributeValueMemberM{Value: known}), nil
}

// takeRest fills in the Rests of v of what it was decoded from. key is that of the
// item, the zero Key within one.
func takeRest(v reflect.Value, from Value, key Key) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			takeRest(v.Elem(), from, key)
		}
	case reflect.Struct:
		m, ok := from.(*types.AttributeValueMemberM)
		if !ok {
			return
		}
		known := shapeOf(v.Type())
		if len(known.rests) > 0 {
			rest := reflect.ValueOf(restOf(known.known, m.Value, key))
			for _, index := range known.rests {
				v.FieldByIndex(index).Set(rest)
			}
		}
		for _, k := range known.deep {
			if m.Value[k.name] != nil {
				takeRest(v.FieldByIndex(k.index), m.Value[k.name], Key{})
			}
		}
	case reflect.Slice, reflect.Array:
		if l, ok := from.(*types.AttributeValueMemberL); ok && len(l.Value) == v.Len() && mayKeep(v.Type().Elem()) {
			for i := range l.Value {
				takeRest(v.Index(i), l.Value[i], Key{})
			}
		}
	case reflect.Map:
		m, ok := from.(*types.AttributeValueMemberM)
		if !ok || v.Type().Key().Kind() != reflect.String || !mayKeep(v.Type().Elem()) {
			return
		}
		for _, name := range v.MapKeys() {
			// What a map holds cannot be changed in place.
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(name))
			takeRest(value, m.Value[name.String()], Key{})
			v.SetMapIndex(name, value)
		}
	default:
	}
}

// restOf gives what of the attributes is not known.
func restOf(known []member, from Item, key Key) Rest {
	isKey := func(name string) bool { return key != (Key{}) && (name == pkAttribute || name == skAttribute) }
	there := 0
	for _, k := range known {
		if from[k.name] != nil && !isKey(k.name) {
			there++
		}
	}
	if key != (Key{}) {
		there += 2 // its key, whether the type has an attribute for a part of it or not
	}
	if there == len(from) {
		return Rest{}
	}
	var more Item
	for name, value := range from {
		if isKey(name) || slices.ContainsFunc(known, func(m member) bool { return m.name == name }) {
			continue
		}
		if more == nil {
			more = Item{}
		}
		more[name] = value
	}
	if more == nil {
		return Rest{}
	}
	return Rest{&unknown{key, more}}
}

// giveRest adds the Rests of v to what it was encoded to, and gives those of the
// item itself.
func giveRest(v reflect.Value, to Value, key Key) (given Item) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return giveRest(v.Elem(), to, key)
		}
	case reflect.Struct:
		m, ok := to.(*types.AttributeValueMemberM)
		if !ok {
			return nil
		}
		known := shapeOf(v.Type())
		given = giveBack(v, known.rests, m.Value, key)
		for _, k := range known.deep {
			if m.Value[k.name] != nil {
				giveRest(v.FieldByIndex(k.index), m.Value[k.name], Key{})
			}
		}
	case reflect.Slice, reflect.Array:
		if l, ok := to.(*types.AttributeValueMemberL); ok && len(l.Value) == v.Len() && mayKeep(v.Type().Elem()) {
			for i := range l.Value {
				giveRest(v.Index(i), l.Value[i], Key{})
			}
		}
	case reflect.Map:
		if m, ok := to.(*types.AttributeValueMemberM); ok && v.Type().Key().Kind() == reflect.String && mayKeep(v.Type().Elem()) {
			for _, name := range v.MapKeys() {
				giveRest(v.MapIndex(name), m.Value[name.String()], Key{})
			}
		}
	default:
	}
	return given
}

// giveBack adds the rests of a struct to its attributes.
func giveBack(v reflect.Value, rests [][]int, to Item, key Key) (given Item) {
	for _, index := range rests {
		rest, _ := v.FieldByIndex(index).Interface().(Rest)
		held := rest.held
		if held == nil || key != (Key{}) && held.key != (Key{}) && held.key != key {
			continue // it is of another item
		}
		for name, value := range held.attributes {
			if to[name] != nil {
				continue
			}
			to[name] = value
			if given == nil {
				given = Item{}
			}
			given[name] = value
		}
	}
	return given
}

// encodeValue encodes a value, with the Rests in it.
func encodeValue(value any) (Value, error) {
	av, err := attributevalue.Marshal(value)
	if err == nil && value != nil {
		giveRest(reflect.ValueOf(value), av, Key{})
	}
	return av, err
}

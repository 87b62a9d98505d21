package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fxamacker/cbor/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Items are stored as CBOR maps (RFC 8949). The maps do not contain the item's key, which is the key of the entry.
// Texts, bytes, booleans, null, arrays and maps become the same CBOR types. Integers of 64 bits with a sign are CBOR
// integers. Other numbers are their decimal text under a private tag. Sets are arrays under the tag that is
// registered for sets.
const (
	setTag     = 258
	decimalTag = 45_001
)

var (
	encoding = must(cbor.EncOptions{}.EncMode())
	decoding = must(cbor.DecOptions{
		// A stored text is returned unchanged, even if it is not valid UTF-8.
		UTF8: cbor.UTF8DecodeInvalid, DefaultMapType: reflect.TypeFor[map[string]any](), MaxNestedLevels: maxNesting,
	}.DecMode())
)

// must panics on an error: the options in this file are known to be valid.
func must[T any](m T, err error) T {
	if err != nil {
		panic(err)
	}
	return m
}

// maxNesting is the maximum depth of a stored item. It is more than DynamoDB's 32 levels.
const maxNesting = 80

var errDamaged = errors.New("embedded: a stored item cannot be read")

// encodeStored returns the value of an item's entry: the item's size and the encoded item.
func encodeStored(s *store.Stored) ([]byte, error) {
	return appendItem(binary.AppendUvarint(nil, uint64(s.Size)), s.Item) //nolint:gosec // G115: sizes are not negative
}

// decodeSize decodes only the size in the value of an item's entry.
func decodeSize(value []byte) (size int, rest []byte, err error) {
	n, used := binary.Uvarint(value)
	if used <= 0 || n > store.MaxItemBytes {
		return 0, nil, errDamaged
	}
	return int(n), value[used:], nil
}

func decodeStored(key store.Key, value []byte) (*store.Stored, error) {
	size, rest, err := decodeSize(value)
	if err != nil {
		return nil, err
	}
	item, err := decodeItem(key, rest)
	return &store.Stored{Item: item, Size: size}, err
}

// appendItem encodes an item without its key.
func appendItem(to []byte, item store.Item) ([]byte, error) {
	plain, err := plainMap(item)
	if err != nil {
		return nil, err
	}
	for name := range (store.Key{}).Item() {
		delete(plain, name)
	}
	raw, err := encoding.Marshal(plain)
	if err != nil {
		return nil, fmt.Errorf("encode an item: %w", err)
	}
	return append(to, raw...), nil
}

func decodeItem(key store.Key, raw []byte) (store.Item, error) {
	var plain map[string]any
	if err := decoding.Unmarshal(raw, &plain); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	item, err := attributeMap(plain)
	if err != nil {
		return nil, err
	}
	for name, v := range key.Item() {
		item[name] = v
	}
	return item, nil
}

func plainMap(in map[string]types.AttributeValue) (map[string]any, error) {
	out := make(map[string]any, len(in))
	for name, v := range in {
		p, err := plain(v)
		if err != nil {
			return nil, err
		}
		out[name] = p
	}
	return out, nil
}

// plain converts an attribute's value to the value that is encoded as CBOR.
func plain(v types.AttributeValue) (any, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, nil
	case *types.AttributeValueMemberN:
		return plainNumber(v.Value), nil
	case *types.AttributeValueMemberB:
		return v.Value, nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberM:
		return plainMap(v.Value)
	case *types.AttributeValueMemberL:
		return plainList(v.Value, plain)
	case *types.AttributeValueMemberSS:
		return cbor.Tag{Number: setTag, Content: v.Value}, nil
	case *types.AttributeValueMemberBS:
		return cbor.Tag{Number: setTag, Content: v.Value}, nil
	case *types.AttributeValueMemberNS:
		list, err := plainList(v.Value, func(n string) (any, error) { return plainNumber(n), nil })
		return cbor.Tag{Number: setTag, Content: list}, err
	}
	return nil, fmt.Errorf("store: a value of the unknown type %T", v)
}

func plainList[T any](in []T, convert func(T) (any, error)) ([]any, error) {
	out := make([]any, len(in))
	for i, v := range in {
		var err error
		if out[i], err = convert(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// plainNumber returns the stored form of a number: an int64, or its text under decimalTag if it is not such an integer.
func plainNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	return cbor.Tag{Number: decimalTag, Content: text}
}

func attributeMap(in map[string]any) (store.Item, error) {
	out := make(store.Item, len(in)+2)
	for name, p := range in {
		v, err := attributeValue(p)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// attributeValue converts a value that was decoded from CBOR to an attribute's value.
func attributeValue(p any) (types.AttributeValue, error) {
	if n, ok := numberText(p); ok {
		return &types.AttributeValueMemberN{Value: n}, nil
	}
	switch p := p.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: p}, nil
	case []byte:
		return &types.AttributeValueMemberB{Value: p}, nil
	case bool:
		return &types.AttributeValueMemberBOOL{Value: p}, nil
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case map[string]any:
		m, err := attributeMap(p)
		return &types.AttributeValueMemberM{Value: m}, err
	case []any:
		list := make([]types.AttributeValue, len(p))
		for i, e := range p {
			var err error
			if list[i], err = attributeValue(e); err != nil {
				return nil, err
			}
		}
		return &types.AttributeValueMemberL{Value: list}, nil
	case cbor.Tag:
		if members, ok := p.Content.([]any); ok && p.Number == setTag && len(members) > 0 {
			return setValue(members)
		}
	}
	return nil, fmt.Errorf("%w: it has a value of type %T", errDamaged, p)
}

// numberText returns the text of a number that was decoded from CBOR. It returns false if p is not a number.
func numberText(p any) (string, bool) {
	switch p := p.(type) {
	case int64:
		return strconv.FormatInt(p, 10), true
	case uint64:
		return strconv.FormatUint(p, 10), true
	case cbor.Tag:
		text, ok := p.Content.(string)
		return text, ok && p.Number == decimalTag
	}
	return "", false
}

// setValue returns a set of strings, of numbers, or of binary values. members must not be empty, because DynamoDB has
// no empty sets. It returns an error if members has values of several types.
func setValue(members []any) (types.AttributeValue, error) {
	var texts, numbers []string
	var binaries [][]byte
	for _, p := range members {
		if n, ok := numberText(p); ok {
			numbers = append(numbers, n)
			continue
		}
		switch p := p.(type) {
		case string:
			texts = append(texts, p)
		case []byte:
			binaries = append(binaries, p)
		}
	}
	switch len(members) {
	case len(texts):
		return &types.AttributeValueMemberSS{Value: texts}, nil
	case len(numbers):
		return &types.AttributeValueMemberNS{Value: numbers}, nil
	case len(binaries):
		return &types.AttributeValueMemberBS{Value: binaries}, nil
	}
	return nil, fmt.Errorf("%w: a set of several kinds", errDamaged)
}

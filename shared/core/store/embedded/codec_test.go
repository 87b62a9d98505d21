package embedded

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/core/store"
)

// TestValueRoundTrip checks that every type of value in DynamoDB is decoded unchanged.
func TestValueRoundTrip(t *testing.T) {
	key := store.Key{PK: "p\x00", SK: "s"}
	item := key.Item()
	for name, v := range map[string]types.AttributeValue{
		"text": &types.AttributeValueMemberS{Value: "é\x00\xff"}, "empty": &types.AttributeValueMemberS{},
		"bytes": &types.AttributeValueMemberB{Value: []byte{0, 255}}, "yes": &types.AttributeValueMemberBOOL{Value: true},
		"null": &types.AttributeValueMemberNULL{Value: true},
		"map": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{
				&types.AttributeValueMemberN{Value: "1"},
				&types.AttributeValueMemberL{Value: []types.AttributeValue{}},
			}},
		}},
		"texts":    &types.AttributeValueMemberSS{Value: []string{"a", ""}},
		"numbers":  &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}},
		"binaries": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {}}},
	} {
		item[name] = v
	}
	for i, n := range []string{
		"0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.50",
		"007", "1E+3", "0.00000000000000000000000000000000000001",
	} {
		item[string(rune('A'+i))] = &types.AttributeValueMemberN{Value: n}
	}
	raw, err := encodeStored(&store.Stored{Item: item, Size: store.Size(item)})
	if err != nil {
		t.Fatalf("encodeStored() = %v, want success", err)
	}
	decoded, err := decodeStored(key, raw)
	if err != nil {
		t.Fatalf("decodeStored() of an encoded item = %v, want success", err)
	}
	if decoded.Size != store.Size(item) || len(decoded.Item) != len(item) {
		t.Errorf("decoded item has size %d and %d values, want %d and %d",
			decoded.Size, len(decoded.Item), store.Size(item), len(item))
	}
	for name, v := range item {
		if !reflect.DeepEqual(v, decoded.Item[name]) {
			t.Errorf("decoded %s = %#v, want %#v", name, decoded.Item[name], v)
		}
	}
}

// FuzzDecode checks that decoding any bytes causes no panic, and that
// an item that was decoded is the same after it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	valid, err := encodeStored(&store.Stored{Item: store.Item{
		"n": &types.AttributeValueMemberN{Value: "1.5"},
		"l": &types.AttributeValueMemberL{},
	}, Size: 9})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte{1, 0xa1, 0x61, 'a', 0xd9, 1, 2, 0x80}) // an empty set
	f.Fuzz(func(t *testing.T, raw []byte) {
		key := store.Key{PK: "p", SK: "s"}
		s, err := decodeStored(key, raw)
		if err != nil {
			return
		}
		reencoded, err := encodeStored(s)
		if err != nil {
			t.Fatalf("encodeStored() of the item decoded from % x = %v, want success", raw, err)
		}
		if decoded, err := decodeStored(key, reencoded); err != nil || !reflect.DeepEqual(decoded.Item, s.Item) {
			t.Errorf("item decoded from % x and encoded again as % x: another item or error %v, want the same item", raw,
				reencoded, err)
		}
	})
}

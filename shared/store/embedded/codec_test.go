package embedded

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/store"
)

// Every value that DynamoDB has comes back as it was.
func TestValuesComeBack(t *testing.T) {
	key := store.Key{PK: "p\x00", SK: "s"}
	item := key.Item()
	for name, v := range map[string]types.AttributeValue{
		"text": &types.AttributeValueMemberS{Value: "é\x00\xff"}, "empty": &types.AttributeValueMemberS{},
		"bytes": &types.AttributeValueMemberB{Value: []byte{0, 255}}, "yes": &types.AttributeValueMemberBOOL{Value: true},
		"null": &types.AttributeValueMemberNULL{Value: true}, "map": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberN{Value: "1"}, &types.AttributeValueMemberL{Value: []types.AttributeValue{}}}},
		}},
		"texts": &types.AttributeValueMemberSS{Value: []string{"a", ""}}, "numbers": &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}},
		"binaries": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {}}},
	} {
		item[name] = v
	}
	for i, n := range []string{"0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.50", "007", "1E+3", "0.00000000000000000000000000000000000001"} {
		item[string(rune('A'+i))] = &types.AttributeValueMemberN{Value: n}
	}
	raw, err := encodeStored(&store.Stored{Item: item, Size: store.Size(item)})
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeStored(key, raw)
	if err != nil {
		t.Fatal(err)
	}
	if back.Size != store.Size(item) || len(back.Item) != len(item) {
		t.Errorf("the size is %d, and %d values", back.Size, len(back.Item))
	}
	for name, v := range item {
		if !reflect.DeepEqual(v, back.Item[name]) {
			t.Errorf("%s comes back as %#v", name, back.Item[name])
		}
	}
}

// Damaged values are an error, whatever they are, and no panic.
func FuzzDecode(f *testing.F) {
	good, err := encodeStored(&store.Stored{Item: store.Item{"n": &types.AttributeValueMemberN{Value: "1.5"}, "l": &types.AttributeValueMemberL{}}, Size: 9})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{1, 0xa1, 0x61, 'a', 0xd9, 1, 2, 0x80}) // an empty set
	f.Fuzz(func(t *testing.T, raw []byte) {
		key := store.Key{PK: "p", SK: "s"}
		s, err := decodeStored(key, raw)
		if err != nil {
			return
		}
		again, err := encodeStored(s)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeStored(key, again); err != nil || !reflect.DeepEqual(back.Item, s.Item) {
			t.Errorf("%#v comes back as %#v (%v)", s, back, err)
		}
	})
}

package embedded_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// TestEachItemReadsSnapshot checks that EachItem visits the items in
// the order of their keys, without the changes of concurrent commits.
func TestEachItemReadsSnapshot(t *testing.T) {
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	put := func(pk, sk string, n int) {
		write := store.Put(store.Key{PK: pk, SK: sk}, map[string]int{"n": n})
		if err := engine.Transact(t.Context(), fmt.Sprint(pk, sk, n), []store.Write{write}); err != nil {
			t.Errorf("Transact(%q, %q) = %v, want success", pk, sk, err)
		}
	}
	for _, key := range [][2]string{{"b", "1"}, {"a\x00", "x\x00y"}, {"a", "2"}} {
		put(key[0], key[1], 1)
	}
	var got []string
	visit := func(item store.Item) error {
		var record struct {
			N int `dynamodbav:"n"`
		}
		key := store.KeyOf(item)
		if err := attributevalue.UnmarshalMap(item, &record); err != nil {
			return err
		}
		got = append(got, fmt.Sprintf("%q %q %d", key.PK, key.SK, record.N))
		put("a", "0", 1)
		put("b", "1", 2)
		return nil
	}
	if err := engine.EachItem(t.Context(), visit); err != nil {
		t.Fatalf("EachItem() = %v, want success", err)
	}
	if diff := cmp.Diff([]string{`"a" "2" 1`, `"a\x00" "x\x00y" 1`, `"b" "1" 1`}, got); diff != "" {
		t.Errorf("items that EachItem() visits (-want +got):\n%s", diff)
	}
	stop := errors.New("stop")
	if err := engine.EachItem(t.Context(), func(store.Item) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("EachItem() with a failing function = %v, want %v", err, stop)
	}
}

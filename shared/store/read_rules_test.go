package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestReadsOfImpossibleKeysAreRefused: DynamoDB answers them with an error of its
// own, emulators let some of them pass.
func TestReadsOfImpossibleKeysAreRefused(t *testing.T) {
	table := storetest.New(t)
	pk, sk := strings.Repeat("p", 2049), strings.Repeat("s", 1025)
	for name, key := range map[string]store.Key{
		"no partition key": {PK: "", SK: "s"}, "no sort key": {PK: "p", SK: ""},
		"a long partition key": {PK: pk, SK: "s"}, "a long sort key": {PK: "p", SK: sk},
	} {
		if err := table.Get(t.Context(), key, nil); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, q := range map[string]store.Query{
		"a long partition": {PK: pk}, "a long prefix": {PK: "p", Prefix: sk},
		"a long beginning": {PK: "p", After: sk}, "a long end": {PK: "p", UpTo: sk},
	} {
		if _, err := table.Count(t.Context(), q); err == nil {
			t.Errorf("%s is asked for", name)
		}
	}
	for _, key := range []store.Key{{PK: pk[1:], SK: sk[1:]}} {
		if err := table.Get(t.Context(), key, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the longest key: %v", err)
		}
	}
}

package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestReadsOfInvalidKeysAreRefused checks that Table refuses reads with invalid keys.
// DynamoDB would return its own error for them, and emulators accept some of them.
func TestReadsOfInvalidKeysAreRefused(t *testing.T) {
	table := storetest.New(t)
	pk, sk := strings.Repeat("p", 2049), strings.Repeat("s", 1025)
	for name, key := range map[string]store.Key{
		"no partition key": {PK: "", SK: "s"}, "no sort key": {PK: "p", SK: ""},
		"a long partition key": {PK: pk, SK: "s"}, "a long sort key": {PK: "p", SK: sk},
	} {
		if err := table.Get(t.Context(), key, nil); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get() with %s = %v, want an error other than %v", name, err, store.ErrNotFound)
		}
	}
	for name, q := range map[string]store.Query{
		"a long partition": {PK: pk}, "a long prefix": {PK: "p", Prefix: sk},
		"a long After": {PK: "p", After: sk}, "a long UpTo": {PK: "p", UpTo: sk},
	} {
		if _, err := table.Count(t.Context(), q); err == nil {
			t.Errorf("Count() with %s succeeds, want an error", name)
		}
	}
	for _, key := range []store.Key{{PK: pk[1:], SK: sk[1:]}} {
		if err := table.Get(t.Context(), key, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get() with the longest key = %v, want %v", err, store.ErrNotFound)
		}
	}
}

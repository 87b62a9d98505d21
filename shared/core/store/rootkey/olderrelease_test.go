package rootkey_test

import (
	"context"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestOlderReleaseFindsNoRotatedKey checks that a release that knows only one root key finds it until
// the rotation switches to the next root key. Then the release finds no root key. With the new
// root key it would refuse all keys of clients, and store data that no other process finds.
func TestOlderReleaseFindsNoRotatedKey(t *testing.T) {
	k, table := rootkeytest.New("old", "new"), storetest.New(t)
	source := rootkey.New(k, "old", table, time.Now)
	readOlder := func() []byte {
		var record struct { // as in releases before rotations
			Wrapped   []byte    `dynamodbav:"wrapped"`
			CreatedOn time.Time `dynamodbav:"createdOn"`
		}
		if err := table.Get(t.Context(), store.KeyPrefix("root-key").Key(), &record); err != nil {
			t.Fatal(err)
		}
		return record.Wrapped
	}
	if _, err := source.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := readOlder()
	steps := []func(context.Context, string) ([]store.Write, error){
		func(ctx context.Context, op string) ([]store.Write, error) { return source.Begin(ctx, op, "auditor") },
		source.Switch, source.Retire,
		func(ctx context.Context, op string) ([]store.Write, error) {
			return source.Finish(ctx, op, rootkey.Counts{})
		},
	}
	for i, step := range steps {
		writes, err := step(t.Context(), "op")
		if err == nil {
			err = table.Commit(t.Context(), writes...)
		}
		if err != nil {
			t.Fatalf("step %d = %v, want success", i, err)
		}
		source.Expire()
		if wrapped := readOlder(); i == 0 && string(wrapped) != string(first) || i > 0 && len(wrapped) > 0 {
			t.Errorf("wrapped key for an older release after step %d = %q, want %q after step 0 and none after later steps",
				i, wrapped, first)
		}
		if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
			t.Errorf("Root() of this release after step %d = %v, want success", i, err)
		}
	}
	// The older release also finds no root key after a change of the KMS key and after an import.
	if err := rootkey.AddKMSKey(t.Context(), k, "old", "new", table, initiator()); err != nil {
		t.Fatal(err)
	}
	if err := rootkey.KeepOnlyKMSKey(t.Context(), k, "new", table, initiator()); err != nil {
		t.Fatal(err)
	}
	if wrapped := readOlder(); len(wrapped) > 0 {
		t.Errorf("wrapped key for an older release after KeepOnlyKMSKey() = %q, want none", wrapped)
	}
	exported, err := rootkey.Export(t.Context(), k, "new", table)
	if err != nil || exported.Number != 2 {
		t.Fatalf("Export() = number %d, %v, want 2", exported.Number, err)
	}
	table = storetest.New(t)
	for range 2 { // first into a table without a root key, then over an existing root key
		w, _, err := rootkey.Import(t.Context(), k, "old", table, exported, time.Now)
		if err == nil {
			err = table.Commit(t.Context(), w)
		}
		if err != nil {
			t.Fatal(err)
		}
		if wrapped := readOlder(); len(wrapped) > 0 {
			t.Errorf("wrapped key for an older release after the import = %q, want none", wrapped)
		}
	}
}

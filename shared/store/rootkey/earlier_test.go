package rootkey_test

import (
	"context"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestEarlierReleasesFindNoLaterRootKey: one that knows one root key unwraps it until the next one writes. Then it finds none, and answers
// that it cannot work: with the new one it would refuse every key, and keep what no other process finds.
func TestEarlierReleasesFindNoLaterRootKey(t *testing.T) {
	k, table := rootkeytest.New("old", "new"), storetest.New(t)
	source := rootkey.New(k, "old", table, time.Now)
	earlier := func() []byte {
		var record struct { // as releases before rotations have it
			Wrapped   []byte    `dynamodbav:"wrapped"`
			CreatedOn time.Time `dynamodbav:"createdOn"`
		}
		if err := table.Get(t.Context(), store.Space("root-key").Key(), &record); err != nil {
			t.Fatal(err)
		}
		return record.Wrapped
	}
	if _, err := source.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := earlier()
	steps := []func(context.Context, string) ([]store.Write, error){
		func(ctx context.Context, op string) ([]store.Write, error) { return source.Begin(ctx, op, "auditor") },
		source.Switch, source.Retire,
		func(ctx context.Context, op string) ([]store.Write, error) {
			return source.Settle(ctx, op, rootkey.Counts{})
		},
	}
	for i, step := range steps {
		writes, err := step(t.Context(), "op")
		if err == nil {
			err = table.Commit(t.Context(), writes...)
		}
		if err != nil {
			t.Fatal(err)
		}
		source.Forget()
		if its := earlier(); i == 0 && string(its) != string(first) || i > 0 && len(its) > 0 {
			t.Errorf("after step %d an earlier release finds %q", i, its)
		}
		if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
			t.Errorf("after step %d this one finds none: %v", i, err)
		}
	}
	// Neither does one with another KMS key, or in another place.
	if err := rootkey.WrapAlso(t.Context(), k, "old", "new", table, asked()); err != nil {
		t.Fatal(err)
	}
	if err := rootkey.WrapOnly(t.Context(), k, "new", table, asked()); err != nil {
		t.Fatal(err)
	}
	if its := earlier(); len(its) > 0 {
		t.Errorf("behind another KMS key an earlier release finds %q", its)
	}
	moved, err := rootkey.Existing(t.Context(), k, "new", table)
	if err != nil || moved.Number != 2 {
		t.Fatalf("it moves as %d, %v", moved.Number, err)
	}
	table = storetest.New(t)
	for range 2 { // over none, and over one that is there
		w, _, err := rootkey.Adopt(t.Context(), k, "old", table, moved, time.Now)
		if err == nil {
			err = table.Commit(t.Context(), w)
		}
		if err != nil {
			t.Fatal(err)
		}
		if its := earlier(); len(its) > 0 {
			t.Errorf("moved, an earlier release finds %q", its)
		}
	}
}

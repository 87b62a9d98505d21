package store_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestATableIsHeldToItsReach: what a role would refuse in AWS fails everywhere, asks nothing of the database, and tells no key.
func TestATableIsHeldToItsReach(t *testing.T) {
	type record struct {
		Text string `dynamodbav:"text"`
	}
	all := storetest.New(t)
	held := all.Within(store.Reach{Reads: []store.Space{"seen"}, Writes: []store.Space{"kept"}})
	ctx := t.Context()
	for _, space := range []store.Space{"seen", "kept", "hidden"} {
		if err := all.Commit(ctx, store.Put(space.Key("secret"), record{"text"})); err != nil {
			t.Fatal(err)
		}
	}
	meter := &store.Meter{}
	counted := store.WithMeter(ctx, meter)
	put := func(space store.Space) func() error {
		return func() error { return held.Commit(counted, store.Put(space.Key("secret"), record{"other"})) }
	}
	get := func(space store.Space) func() error {
		return func() error { return held.Get(counted, space.Key("secret"), &record{}) }
	}
	query := func(q store.Query) func() error {
		return func() error { _, err := held.Keys(counted, q); return err }
	}
	for name, test := range map[string]struct {
		do     func() error
		beyond string // the space that is told, "" for one that is within
	}{
		"a read":                           {get("seen"), ""},
		"a read of what it may only write": {get("kept"), "kept"},
		"a read beyond":                    {get("hidden"), "hidden"},
		"a space that begins alike":        {get("seen-too"), "seen-too"},
		"a query":                          {query(store.Query{PK: store.Space("seen").Partition("secret")}), ""},
		"a query beyond":                   {query(store.Query{PK: store.Space("hidden").Partition("secret")}), "hidden"},
		"an index, which has keys alone":   {query(store.Query{Index: store.DueIndex, PK: store.Space("hidden").Partition("secret")}), ""},
		"a write":                          {put("kept"), ""},
		"a write of what it may only read": {put("seen"), "seen"},
		"a write beyond":                   {put("hidden"), "hidden"},
		"a deletion beyond":                {func() error { return held.Commit(counted, store.Delete(store.Space("hidden").Key("secret"))) }, "hidden"},
		"a check beyond": {func() error {
			return held.Commit(counted, store.Put(store.Space("kept").Key("a"), record{}), store.Check(store.Space("hidden").Key("secret"), store.Exists()))
		}, "hidden"},
		"one read of two beyond": {func() error {
			return held.Load(counted, store.Want(store.Space("seen").Key("secret"), &record{}), store.Want(store.Space("hidden").Key("secret"), &record{}))
		}, "hidden"},
	} {
		before := meter.Usage()
		err := test.do()
		if test.beyond == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), `"`+test.beyond+`"`) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if meter.Usage() != before {
			t.Errorf("%s asks something of the database", name)
		}
	}
	var r record
	if err := all.Get(ctx, store.Space("hidden").Key("secret"), &r); err != nil || r.Text != "text" {
		t.Errorf("beyond the reach there is %q, %v", r.Text, err)
	}
}

package store_test

import (
	"context"
	"errors"
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

// TestADryRunReadsWhatItsChangeWouldWrite, and what is declared for it besides, which no request does.
func TestADryRunReadsWhatItsChangeWouldWrite(t *testing.T) {
	all := storetest.New(t)
	held := all.Within(store.Reach{Reads: []store.Space{"seen"}, Writes: []store.Space{"kept"}, Tries: []store.Space{"counted"}})
	tried, _, _ := store.Try(t.Context())
	for space, within := range map[store.Space]struct{ request, dryRun bool }{
		"seen": {true, true}, "kept": {false, true}, "counted": {false, true}, "hidden": {false, false},
	} {
		for ctx, want := range map[context.Context]bool{t.Context(): within.request, tried: within.dryRun} {
			err := held.Get(ctx, space.Key("x"), &struct{ store.Rest }{})
			if refused := !errors.Is(err, store.ErrNotFound); refused == want {
				t.Errorf("%s: in a dry run %v: %v", space, ctx == tried, err)
			}
			_, err = held.Keys(ctx, store.Query{PK: space.Partition("x")})
			if (err == nil) != want {
				t.Errorf("a query of %s: in a dry run %v: %v", space, ctx == tried, err)
			}
		}
	}
}

// TestWhoDeclaresItReadsAllOfTheTable, whatever holds it besides, and nobody else.
func TestWhoDeclaresItReadsAllOfTheTable(t *testing.T) {
	all := storetest.New(t)
	if err := all.Commit(t.Context(), store.Put(store.Space("hidden").Key("x"), struct{ store.Rest }{})); err != nil {
		t.Fatal(err)
	}
	scans := store.Reach{Reads: []store.Space{"seen"}, Scans: true}
	for name, test := range map[string]struct {
		held *store.Table
		want bool
	}{
		"who declares it":                    {all.Within(scans), true},
		"who does so within another's":       {all.Within(scans).Within(scans), true},
		"who does not":                       {all.Within(store.Reach{Reads: []store.Space{"seen"}}), false},
		"who does not, within one that does": {all.Within(scans).Within(store.Reach{Reads: []store.Space{"seen"}}), false},
		"who does within one that does not":  {all.Within(store.Reach{Reads: []store.Space{"seen"}}).Within(scans), false},
		"who lists every space and no more":  {all.Within(store.Reach{Reads: []store.Space{"seen", "hidden"}}), false},
	} {
		items, _, err := test.held.Page(t.Context(), store.Key{}, 10)
		if got := err == nil && len(items) == 1; got != test.want {
			t.Errorf("%s: %d items, %v", name, len(items), err)
		}
		if err := test.held.Get(t.Context(), store.Space("seen").Key("x"), &struct{ store.Rest }{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s reads no longer what it may: %v", name, err)
		}
	}
}

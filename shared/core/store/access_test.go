package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestRestrictedTableRefusesOtherPrefixes checks that a call that a role would refuse in AWS also
// fails here. The call must make no request to the database, and its error must not contain a key.
func TestRestrictedTableRefusesOtherPrefixes(t *testing.T) {
	type record struct {
		Text string `dynamodbav:"text"`
	}
	all := storetest.New(t)
	restricted := all.Restrict(store.TableAccess{
		Reads: []store.KeyPrefix{"readable"}, Writes: []store.KeyPrefix{"writable"},
	})
	ctx := t.Context()
	for _, prefix := range []store.KeyPrefix{"readable", "writable", "hidden"} {
		if err := all.Commit(ctx, store.Put(prefix.Key("secret"), record{"text"})); err != nil {
			t.Fatal(err)
		}
	}
	meter := &store.Meter{}
	metered := store.WithMeter(ctx, meter)
	put := func(prefix store.KeyPrefix) func() error {
		return func() error { return restricted.Commit(metered, store.Put(prefix.Key("secret"), record{"other"})) }
	}
	get := func(prefix store.KeyPrefix) func() error {
		return func() error { return restricted.Get(metered, prefix.Key("secret"), &record{}) }
	}
	query := func(q store.Query) func() error {
		return func() error { _, err := restricted.Keys(metered, q); return err }
	}
	for name, test := range map[string]struct {
		call    func() error
		refused string // the prefix in the error, "" if the call is allowed
	}{
		"a read":                        {get("readable"), ""},
		"a read with write access only": {get("writable"), "writable"},
		"a read without access":         {get("hidden"), "hidden"},
		"a read of a longer prefix":     {get("readable-too"), "readable-too"},
		"a query":                       {query(store.Query{PK: store.KeyPrefix("readable").Partition("secret")}), ""},
		"a query without access":        {query(store.Query{PK: store.KeyPrefix("hidden").Partition("secret")}), "hidden"},
		"a query of an index with keys only": {
			query(store.Query{Index: store.DueIndex, PK: store.KeyPrefix("hidden").Partition("secret")}), "",
		},
		"a write":                       {put("writable"), ""},
		"a write with read access only": {put("readable"), "readable"},
		"a write without access":        {put("hidden"), "hidden"},
		"a deletion without access": {func() error {
			return restricted.Commit(metered, store.Delete(store.KeyPrefix("hidden").Key("secret")))
		}, "hidden"},
		"a check without access": {func() error {
			return restricted.Commit(metered, store.Put(store.KeyPrefix("writable").Key("a"), record{}),
				store.Check(store.KeyPrefix("hidden").Key("secret"), store.Exists()))
		}, "hidden"},
		"two reads, one without access": {func() error {
			return restricted.Load(metered, store.Get(store.KeyPrefix("readable").Key("secret"), &record{}),
				store.Get(store.KeyPrefix("hidden").Key("secret"), &record{}))
		}, "hidden"},
	} {
		before := meter.Usage()
		err := test.call()
		if test.refused == "" {
			if err != nil {
				t.Errorf("%s = %v, want success", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), `"`+test.refused+`"`) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error = %v, want the prefix %q in it, without the key", name, err, test.refused)
		}
		if meter.Usage() != before {
			t.Errorf("%s: usage = %+v before, %+v after the call, want no call of the database", name, before, meter.Usage())
		}
	}
	var r record
	if err := all.Get(ctx, store.KeyPrefix("hidden").Key("secret"), &r); err != nil || r.Text != "text" {
		t.Errorf("Get() with the unrestricted table = %q, %v, want \"text\"", r.Text, err)
	}
}

// TestDryRunCanReadWritablePrefixes checks that a dry run can also read the prefixes
// in Writes and DryRunReads, which a request outside a dry run cannot read.
func TestDryRunCanReadWritablePrefixes(t *testing.T) {
	all := storetest.New(t)
	restricted := all.Restrict(store.TableAccess{
		Reads: []store.KeyPrefix{"readable"}, Writes: []store.KeyPrefix{"writable"},
		DryRunReads: []store.KeyPrefix{"counted"},
	})
	dryRun, _, _ := store.BeginDryRun(t.Context())
	for prefix, allowed := range map[store.KeyPrefix]struct{ request, dryRun bool }{
		"readable": {true, true}, "writable": {false, true}, "counted": {false, true}, "hidden": {false, false},
	} {
		for ctx, want := range map[context.Context]bool{t.Context(): allowed.request, dryRun: allowed.dryRun} {
			err := restricted.Get(ctx, prefix.Key("x"), &struct{ store.UnknownAttributes }{})
			if refused := !errors.Is(err, store.ErrNotFound); refused == want {
				t.Errorf("Get(%s), dry run %t = %v, want allowed %t", prefix, ctx == dryRun, err, want)
			}
			_, err = restricted.Keys(ctx, store.Query{PK: prefix.Partition("x")})
			if (err == nil) != want {
				t.Errorf("Keys(%s), dry run %t = %v, want allowed %t", prefix, ctx == dryRun, err, want)
			}
		}
	}
}

// TestScanRequiresScanAccess checks that only a TableAccess with Scans allows reading the whole table.
func TestScanRequiresScanAccess(t *testing.T) {
	all := storetest.New(t)
	if err := all.Commit(t.Context(), store.Put(store.KeyPrefix("hidden").Key("x"),
		struct{ store.UnknownAttributes }{})); err != nil {
		t.Fatal(err)
	}
	scans := store.TableAccess{Reads: []store.KeyPrefix{"readable"}, Scans: true}
	for name, test := range map[string]struct {
		restricted *store.Table
		want       bool
	}{
		"scan access":               {all.Restrict(scans), true},
		"scan access twice":         {all.Restrict(scans).Restrict(scans), true},
		"read access to one prefix": {all.Restrict(store.TableAccess{Reads: []store.KeyPrefix{"readable"}}), false},
		"read access restricted from scan access": {
			all.Restrict(scans).Restrict(store.TableAccess{Reads: []store.KeyPrefix{"readable"}}), false,
		},
		"scan access restricted from read access": {
			all.Restrict(store.TableAccess{Reads: []store.KeyPrefix{"readable"}}).Restrict(scans), false,
		},
		"read access to all prefixes": {
			all.Restrict(store.TableAccess{Reads: []store.KeyPrefix{"readable", "hidden"}}), false,
		},
	} {
		items, _, err := test.restricted.Page(t.Context(), store.Key{}, 10)
		if got := err == nil && len(items) == 1; got != test.want {
			t.Errorf("Page(), %s = %d items, %v, want allowed %t", name, len(items), err, test.want)
		}
		if err := test.restricted.Get(t.Context(), store.KeyPrefix("readable").Key("x"),
			&struct{ store.UnknownAttributes }{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get(readable), %s = %v, want %v", name, err, store.ErrNotFound)
		}
	}
}

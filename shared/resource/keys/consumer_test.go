package keys_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

func TestReadConsumerByNameIDAndTag(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	created := must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: "org_123", Description: "first", Tags: map[string]string{"org": "1"}, Metadata: json.RawMessage(`{"plan": 3}`),
	}))
	for _, test := range []struct {
		nameOrID string
		tags     map[string]string
		want     bool
	}{
		{"org_123", nil, true},
		{created.ID, nil, true},
		{created.ID, map[string]string{"org": "1"}, true},
		{"org_123", map[string]string{"org": "2"}, false},
		{"org_123", map[string]string{"org": "1", "more": ""}, false},
		{"csmr_000000000000000000000000", nil, false},
		{"nobody", nil, false},
		{"no/name", nil, false},
	} {
		got, err := fx.keys.ReadConsumer(fx.Context(), keys.ConsumerLocator{
			BucketLocator: bucketAt(bucket), Consumer: test.nameOrID,
			Tags: test.tags,
		}, keys.Include{})
		if !test.want {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("ReadConsumer(%+v) error = %v, want %v", test, err, fault.NotFound)
			}
			continue
		}
		if err != nil {
			t.Fatalf("ReadConsumer(%+v) error = %v, want none", test, err)
		}
		if got.ID != created.ID || got.Name != "org_123" || string(got.Metadata) != `{"plan":3}` {
			t.Errorf(`ReadConsumer(%+v) = ID %s, name %s, metadata %s, want ID %s, name org_123, metadata {"plan":3}`,
				test, got.ID, got.Name, got.Metadata, created.ID)
		}
		if got.Keys != nil || got.Managers != nil {
			t.Errorf("ReadConsumer(%+v) = keys %v and managers %v, want neither", test, got.Keys, got.Managers)
		}
	}
	_, err := fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{Name: "org_123"})
	wantFault(t, err, fault.Conflict)
}

func TestIDOfDeletedConsumerIsNotReused(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	old := fx.createConsumer("alice")
	must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt(old.ID), keys.Include{}))
	noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
	fx.createConsumer("alice")
	_, err := fx.keys.ReadConsumer(fx.Context(), consumerAt(old.ID), keys.Include{})
	wantFault(t, err, fault.NotFound)
}

func TestListConsumersFiltersAndPages(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	for i := range 25 {
		tags := map[string]string{"parity": []string{"even", "odd"}[i%2]}
		var managers []keys.NewManager
		if i%5 == 0 {
			tags["five"] = "yes"
			managers = []keys.NewManager{{Email: "Boss@Example.com", Invite: i%2 == 0, Sub: "boss"}}
		}
		must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
			Name: fmt.Sprintf("c%02d", i), Tags: tags, Managers: managers,
		}))
	}
	for _, test := range []struct {
		name   string
		filter keys.Filter
		page   store.Page
		total  int
		want   string
	}{
		{"all", keys.Filter{}, store.Page{Limit: 3}, 25, "c00 c01 c02"},
		{"offset", keys.Filter{}, store.Page{Limit: 3, Offset: 23}, 25, "c23 c24"},
		{"offset at the end", keys.Filter{}, store.Page{Limit: 3, Offset: 25}, 25, ""},
		{"offset far beyond the end", keys.Filter{}, store.Page{Limit: 3, Offset: 1 << 31}, 25, ""},
		{"tag", keys.Filter{Tags: map[string]string{"five": "yes"}}, store.Page{Limit: 2, Offset: 1}, 5, "c05 c10"},
		{
			"two tags",
			keys.Filter{Tags: map[string]string{"five": "yes", "parity": "odd"}},
			store.Page{Limit: 9},
			2,
			"c05 c15",
		},
		{"no such tag", keys.Filter{Tags: map[string]string{"five": "no"}}, store.Page{Limit: 9}, 0, ""},
		{
			"manager in any case",
			keys.Filter{ManagerEmail: "bOSS@example.COM"},
			store.Page{Limit: 9},
			5,
			"c00 c05 c10 c15 c20",
		},
		{
			"manager and tag",
			keys.Filter{ManagerEmail: "boss@example.com", Tags: map[string]string{"parity": "even"}},
			store.Page{Limit: 9},
			3, "c00 c10 c20",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), test.filter, test.page, keys.Include{})
			noError(t, err)
			var names []string
			for _, c := range got {
				names = append(names, c.Name)
			}
			if total != test.total || strings.Join(names, " ") != test.want {
				t.Fatalf("ListConsumers() = %q, total %d, want %q, total %d", names, total, test.want, test.total)
			}
		})
	}
}

func TestSimilarTagsAreDistinguished(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	for name, tags := range map[string]map[string]string{
		"a": {"x": "y=z"}, "b": {"x=y": "z"}, "c": {"x#": "1"}, "d": {"x%23": "1"},
	} {
		must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
			keys.NewConsumer{Name: name, Tags: tags}))
		got, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{Tags: tags}, all,
			keys.Include{})
		if err != nil || total != 1 || got[0].Name != name {
			t.Errorf("ListConsumers(tags of %s) = %+v, total %d, %v, want only %[1]s", name, got, total, err)
		}
	}
}

func TestUpdateConsumerUpdatesIndex(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: "alice", Description: "old", Tags: map[string]string{"a": "1", "b": "2"}, Metadata: json.RawMessage(`{"x":1}`),
	}))
	must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"), keys.ConsumerPatch{
		Tags: store.PatchTo(map[string]string{"b": "2", "c": "3"}), Metadata: store.PatchClear[json.RawMessage](),
	}))
	for tag, want := range map[[2]string]int{{"a", "1"}: 0, {"b", "2"}: 1, {"c", "3"}: 1} {
		_, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket),
			keys.Filter{Tags: map[string]string{tag[0]: tag[1]}}, all, keys.Include{})
		if err != nil || total != want {
			t.Errorf("ListConsumers(tag %v) = total %d, %v, want %d and no error", tag, total, err, want)
		}
	}
	got := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{}))
	if got.Description != "old" || got.Metadata != nil {
		t.Errorf("consumer after the update = %+v, want description old and no metadata", got)
	}
	wantFault(t, func() error {
		at := consumerAt("alice")
		at.Tags = map[string]string{"a": "1"}
		_, err := fx.keys.UpdateConsumer(fx.requestContext(), at, keys.ConsumerPatch{})
		return err
	}(), fault.NotFound)
}

func TestManagersAndInvites(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	created := must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
		keys.NewConsumer{Name: "alice", Managers: []keys.NewManager{
			{Email: "a@x.example", Sub: "a"}, {Email: "b@x.example", Invite: true},
		}}))
	both := keys.Include{Managers: true, Invites: true}
	got := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt(created.ID), both))
	if len(got.Managers) != 1 || got.Managers[0].Sub != "a" || len(got.Invites) != 1 ||
		got.Invites[0].Email != "b@x.example" {
		t.Fatalf("managers = %+v, invites = %+v, want manager a and invite b@x.example", got.Managers, got.Invites)
	}
	_, err := fx.keys.AddManager(fx.requestContext(), consumerAt("alice"), keys.NewManager{Email: "A@x.example", Sub: "z"})
	wantFault(t, err, fault.Conflict)
	b := must[keys.Manager](t)(fx.keys.AddManager(fx.requestContext(), consumerAt("alice"),
		keys.NewManager{Email: "B@x.example", Sub: "b"}))
	got = must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), both))
	if len(got.Invites) != 0 || len(got.Managers) != 2 || got.Managers[0].ID != b.ID {
		t.Fatalf("managers = %+v, invites = %+v, want 2 managers with %s first and no invites",
			got.Managers, got.Invites, b.ID)
	}
	page, total, err := fx.keys.ListManagers(fx.Context(), consumerAt("alice"), store.Page{Limit: 5, Offset: 1})
	if err != nil || total != 2 || len(page) != 1 || page[0].Sub != "a" {
		t.Fatalf("ListManagers(offset 1) = %+v of %d, %v, want manager a of 2", page, total, err)
	}
	p := must[keys.Person](t)(fx.keys.ReadManager(fx.Context(), consumerAt(created.ID), b.ID))
	if p.ID != b.ID || p.Email != b.Email || !p.CreatedOn.Equal(b.CreatedOn) {
		t.Errorf("ReadManager(%s) = %+v, want %+v", b.ID, p, b)
	}
	if p.Sub == nil {
		t.Errorf("ReadManager(%s) = no subject, want b", b.ID)
	} else if *p.Sub != "b" {
		t.Errorf("ReadManager(%s) = subject %s, want b", b.ID, *p.Sub)
	}
	noError(t, fx.keys.DeleteManager(fx.requestContext(), consumerAt("alice"), b.ID))
	wantFault(t, fx.keys.DeleteManager(fx.requestContext(), consumerAt("alice"), b.ID), fault.NotFound)
	_, err = fx.keys.ReadManager(fx.Context(), consumerAt("alice"), b.ID)
	wantFault(t, err, fault.NotFound)
	if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{ManagerEmail: "b@x.example"},
		all, keys.Include{}); err != nil || total != 0 {
		t.Fatalf("ListConsumers(email of a deleted manager) = %d, %v, want 0 and no error", total, err)
	}
}

func TestListedConsumersHaveTheirKeys(t *testing.T) {
	const count = 30 // more consumers than are read concurrently
	fx := newFixture(t)
	fx.createBucket()
	want := map[string]string{}
	for i := range count {
		name := fmt.Sprintf("consumer-%d", i)
		fx.createConsumer(name)
		want[name] = fx.createKey(name, keys.NewKey{}).ID
	}
	got, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, all,
		keys.Include{Keys: true})
	if err != nil || total != count || len(got) != count {
		t.Fatalf("ListConsumers() = %d of %d, %v, want %d of %[4]d", len(got), total, err, count)
	}
	for _, c := range got {
		if len(c.Keys) != 1 || c.Keys[0].ID != want[c.Name] {
			t.Errorf("keys of %s = %+v, want %s", c.Name, c.Keys, want[c.Name])
		}
	}
}

func TestDeleteManagerWithdrawsInvite(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
		keys.NewConsumer{Name: "alice", Managers: []keys.NewManager{
			{Email: "a@x.example", Sub: "a"}, {Email: "b@x.example", Invite: true}, {Email: "c@x.example", Invite: true},
		}}))
	both := keys.Include{Managers: true, Invites: true}
	wantFault(t, fx.keys.DeleteManager(fx.requestContext(), consumerAt("alice"), "minv_none"), fault.NotFound)
	before := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), both))
	if p := must[keys.Person](t)(fx.keys.ReadManager(fx.Context(), consumerAt("alice"),
		before.Invites[0].ID)); p.Email != before.Invites[0].Email || p.Sub != nil {
		t.Errorf("ReadManager(invite) = %+v, want %+v without subject", p, before.Invites[0])
	}
	noError(t, fx.keys.DeleteManager(fx.requestContext(), consumerAt("alice"), before.Invites[0].ID))
	_, err := fx.keys.ReadManager(fx.Context(), consumerAt("alice"), before.Invites[0].ID)
	wantFault(t, err, fault.NotFound)
	after := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), both))
	if len(after.Managers) != 1 || len(after.Invites) != 1 || after.Invites[0] != before.Invites[1] {
		t.Errorf("managers = %+v, invites = %+v, want 1 manager and the second of the invites %+v",
			after.Managers, after.Invites, before.Invites)
	}
}

// TestConsumerHasAtMostFiftyManagers checks that a consumer gets no further manager if it has 50 managers and invites.
// It also checks that no item remains after such a consumer, with 5 tags and 40 keys, and its bucket are deleted.
func TestConsumerHasAtMostFiftyManagers(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	managers := make([]keys.NewManager, 50)
	for i := range managers {
		managers[i] = keys.NewManager{Email: fmt.Sprintf("m%d@x.example", i), Sub: "s"}
	}
	managers[0], managers[1] = keys.NewManager{Email: "m0@x.example", Invite: true},
		keys.NewManager{Email: "m1@x.example", Invite: true}
	must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: "alice", Managers: managers, WithKey: true,
		Tags: map[string]string{"a": "", "b": "", "c": "", "d": "", "e": ""},
	}))
	_, err := fx.keys.AddManager(fx.requestContext(), consumerAt("alice"),
		keys.NewManager{Email: "one@more.example", Sub: "s"})
	wantFault(t, err, fault.Conflict)
	fx.createKeys("alice", 39)
	noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
	fx.finishOperations()
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
	fx.finishOperations()
	if leftover := fx.leftovers(); len(leftover) > 0 {
		t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
	}
}

func TestVerifyReturnsNameAndMetadata(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	created := must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: "alice", Metadata: json.RawMessage(`{"plan":"gold"}`), WithKey: true,
	}))
	id, _ := fx.verifyKey(created.Keys[0].Text)
	if id.Sub != "alice" || string(id.Data) != `{"plan":"gold"}` || id.ConsumerID != created.ID ||
		id.KeyID != created.Keys[0].ID {
		t.Fatalf("verified key: subject %s, metadata %s, consumer %s, key %s, want alice, plan gold, consumer %s, key %s",
			id.Sub, id.Data, id.ConsumerID, id.KeyID, created.ID, created.Keys[0].ID)
	}
	must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
		keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"plan":"tin"}`))}))
	if id, _ = fx.verifyKey(created.Keys[0].Text); string(id.Data) != `{"plan":"tin"}` {
		t.Fatalf("metadata after the update = %s, want plan tin", id.Data)
	}
}

// TestConcurrentChangesOfConsumerPersist creates keys and updates the metadata of their consumer concurrently. Exactly
// the keys of successful creations must be listed, and the gateway must accept them with the consumer's metadata.
func TestConcurrentChangesOfConsumerPersist(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	var group sync.WaitGroup
	var mu sync.Mutex
	var created []keys.Key
	for range 6 {
		group.Go(func() {
			for range 5 {
				k, err := fx.keys.CreateKey(fx.requestContext(), consumerAt("alice"), keys.NewKey{})
				if fault.Is(err, fault.Throttled) {
					continue // a client would retry
				}
				if err != nil {
					t.Errorf("concurrent CreateKey() error = %v, want none or %v", err, fault.Throttled)
					return
				}
				mu.Lock()
				created = append(created, k)
				mu.Unlock()
			}
		})
	}
	for i := range 10 {
		group.Go(func() {
			_, err := fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
				keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)))})
			if err != nil && !fault.Is(err, fault.Throttled) {
				t.Errorf("concurrent UpdateConsumer() error = %v, want none or %v", err, fault.Throttled)
			}
		})
	}
	group.Wait()
	if len(created) == 0 {
		t.Fatal("all concurrent calls of CreateKey() are throttled, want at least one success")
	}
	if got := fx.listKeys("alice"); len(got) != len(created) {
		t.Fatalf("ListKeys() = %d keys, want %d", len(got), len(created))
	}
	c := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{}))
	for _, k := range created {
		if id, ok := fx.verifyKey(k.Text); !ok || string(id.Data) != string(c.Metadata) {
			t.Fatalf("metadata of a verified key = %s (accepted: %t), want %s", id.Data, ok, c.Metadata)
		}
	}
}

func TestConcurrentCreatesOfOneNameHaveOneWinner(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	var group sync.WaitGroup
	var mu sync.Mutex
	succeeded := 0
	for range 8 {
		group.Go(func() {
			_, err := fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{Name: "alice"})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				succeeded++
			} else if !fault.Is(err, fault.Conflict) {
				t.Errorf("concurrent CreateConsumer() error = %v, want none or %v", err, fault.Conflict)
			}
		})
	}
	group.Wait()
	if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, all,
		keys.Include{}); succeeded != 1 || total != 1 || err != nil {
		t.Fatalf("%d creations succeed, ListConsumers() = %d, %v, want 1 and 1", succeeded, total, err)
	}
}

// TestListReadsOnlyItsPage checks that a list reads little beyond a page that Fits ends early. It may use one query of
// keys for each consumer of the page, and 5 further queries. It may use the read units of a fifth of all consumers or,
// with a filter, of about half of them.
func TestListReadsOnlyItsPage(t *testing.T) {
	const consumers, pageSize = 300, 10
	fx := newFixture(t)
	fx.createBucket()
	var managers []keys.NewManager
	for i := range 50 { // a consumer has about 25 KB
		managers = append(managers, keys.NewManager{
			Email: fmt.Sprintf("%d-%s@example.com", i, strings.Repeat("x", 200)),
			Sub:   strings.Repeat("s", 200),
		})
	}
	for i := range consumers {
		name := fmt.Sprintf("c-%03d", i)
		must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
			Name: name, WithKey: true, Managers: managers, Tags: map[string]string{"a": "1"},
		}))
	}
	const totalUnits = consumers * 25 / 4 // read units for all consumers, at 4 KB each
	for _, tt := range []struct {
		name     string
		filter   keys.Filter
		keys     bool
		maxUnits float64
	}{
		{"all", keys.Filter{}, false, totalUnits / 5},
		{"all with keys", keys.Filter{}, true, totalUnits / 5},
		{"filtered", keys.Filter{Tags: map[string]string{"a": "1"}}, false, totalUnits/2 + 20},
		{"filtered with keys", keys.Filter{Tags: map[string]string{"a": "1"}}, true, totalUnits/2 + 20},
	} {
		include := keys.Include{Keys: tt.keys, Format: keys.Masked, Managers: true, Fits: func() func(keys.Consumer) bool {
			remaining := pageSize
			return func(keys.Consumer) bool {
				remaining--
				return remaining >= 0
			}
		}}
		meter := &store.Meter{}
		got, _, total, err := fx.keys.ListConsumers(store.WithMeter(fx.Context(), meter), bucketAt(bucket), tt.filter, all,
			include)
		usage := meter.Usage()
		if err != nil || len(got) != pageSize || total != consumers {
			t.Fatalf("%s: ListConsumers() = %d of %d, %v, want %d of %d", tt.name, len(got), total, err, pageSize, consumers)
		}
		if last := got[pageSize-1].Name; last != "c-009" || tt.keys != (len(got[0].Keys) == 1) {
			t.Errorf("%s: last consumer = %s, keys of the first = %v, want c-009 and keys: %t",
				tt.name, last, got[0].Keys, tt.keys)
		}
		if usage.ReadUnits > tt.maxUnits || usage.Queries > 5+pageSize {
			t.Errorf("%s: %.0f units in %d reads and %d queries, want at most %.0f units and %d queries",
				tt.name, usage.ReadUnits, usage.Reads, usage.Queries, tt.maxUnits, 5+pageSize)
		}
	}
}

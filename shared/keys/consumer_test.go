package keys_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

func TestConsumerIsFoundByNameByIDAndByTag(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	made := must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
		Name: "org_123", Description: "first", Tags: map[string]string{"org": "1"}, Metadata: json.RawMessage(`{"plan": 3}`),
	}))
	for _, test := range []struct {
		at   string
		tags map[string]string
		want bool
	}{
		{"org_123", nil, true},
		{made.ID, nil, true},
		{made.ID, map[string]string{"org": "1"}, true},
		{"org_123", map[string]string{"org": "2"}, false},
		{"org_123", map[string]string{"org": "1", "more": ""}, false},
		{"csmr_000000000000000000000000", nil, false},
		{"nobody", nil, false},
		{"no/name", nil, false},
	} {
		got, err := w.keys.ReadConsumer(w.Context(), keys.ConsumerAt{BucketAt: in(bucket), Consumer: test.at, Tags: test.tags}, keys.Include{})
		if !test.want {
			wantFault(t, err, fault.NotFound)
			continue
		}
		must0(t, err)
		if got.ID != made.ID || got.Name != "org_123" || string(got.Metadata) != `{"plan":3}` || got.Keys != nil || got.Managers != nil {
			t.Errorf("%+v: got %+v", test, got)
		}
	}
	_, err := w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: "org_123"})
	wantFault(t, err, fault.Conflict)
}

func TestConsumerIDOfADeletedConsumerNeverMeansItsSuccessor(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	old := w.consumer("alice")
	must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of(old.ID), keys.Include{}))
	must0(t, w.keys.DeleteConsumer(w.request(), of("alice")))
	w.consumer("alice")
	_, err := w.keys.ReadConsumer(w.Context(), of(old.ID), keys.Include{})
	wantFault(t, err, fault.NotFound)
}

func TestListOfConsumersFiltersCountsAndPages(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	for i := range 25 {
		tags := map[string]string{"parity": []string{"even", "odd"}[i%2]}
		var managers []keys.NewManager
		if i%5 == 0 {
			tags["five"] = "yes"
			managers = []keys.NewManager{{Email: "Boss@Example.com", Invite: i%2 == 0, Sub: "boss"}}
		}
		must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
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
		{"beyond", keys.Filter{}, store.Page{Limit: 3, Offset: 25}, 25, ""},
		{"far beyond", keys.Filter{}, store.Page{Limit: 3, Offset: 1 << 31}, 25, ""},
		{"tag", keys.Filter{Tags: map[string]string{"five": "yes"}}, store.Page{Limit: 2, Offset: 1}, 5, "c05 c10"},
		{"tags together", keys.Filter{Tags: map[string]string{"five": "yes", "parity": "odd"}}, store.Page{Limit: 9}, 2, "c05 c15"},
		{"no such tag", keys.Filter{Tags: map[string]string{"five": "no"}}, store.Page{Limit: 9}, 0, ""},
		{"manager in any case", keys.Filter{ManagerEmail: "bOSS@example.COM"}, store.Page{Limit: 9}, 5, "c00 c05 c10 c15 c20"},
		{"manager and tag", keys.Filter{ManagerEmail: "boss@example.com", Tags: map[string]string{"parity": "even"}}, store.Page{Limit: 9}, 3, "c00 c10 c20"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), test.filter, test.page, keys.Include{})
			must0(t, err)
			var names []string
			for _, c := range got {
				names = append(names, c.Name)
			}
			if total != test.total || strings.Join(names, " ") != test.want {
				t.Fatalf("got %d: %s; want %d: %s", total, names, test.total, test.want)
			}
		})
	}
}

func TestTagsThatLookAlikeAreApart(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	for name, tags := range map[string]map[string]string{
		"a": {"x": "y=z"}, "b": {"x=y": "z"}, "c": {"x#": "1"}, "d": {"x%23": "1"},
	} {
		must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: name, Tags: tags}))
		got, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{Tags: tags}, all, keys.Include{})
		if err != nil || total != 1 || got[0].Name != name {
			t.Errorf("%s: %d found, %v", name, total, err)
		}
	}
}

func TestConsumerUpdateMovesTheIndex(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
		Name: "alice", Description: "old", Tags: map[string]string{"a": "1", "b": "2"}, Metadata: json.RawMessage(`{"x":1}`),
	}))
	must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{
		Tags: store.PatchTo(map[string]string{"b": "2", "c": "3"}), Metadata: store.PatchClear[json.RawMessage](),
	}))
	for tag, want := range map[[2]string]int{{"a", "1"}: 0, {"b", "2"}: 1, {"c", "3"}: 1} {
		_, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{Tags: map[string]string{tag[0]: tag[1]}}, all, keys.Include{})
		if err != nil || total != want {
			t.Errorf("tag %v: %d, %v; want %d", tag, total, err, want)
		}
	}
	got := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{}))
	if got.Description != "old" || got.Metadata != nil {
		t.Errorf("got %+v", got)
	}
	wantFault(t, func() error {
		at := of("alice")
		at.Tags = map[string]string{"a": "1"}
		_, err := w.keys.UpdateConsumer(w.request(), at, keys.ConsumerPatch{})
		return err
	}(), fault.NotFound)
}

func TestManagersAndInvites(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	made := must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: "alice", Managers: []keys.NewManager{
		{Email: "a@x.example", Sub: "a"}, {Email: "b@x.example", Invite: true},
	}}))
	both := keys.Include{Managers: true, Invites: true}
	got := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of(made.ID), both))
	if len(got.Managers) != 1 || got.Managers[0].Sub != "a" || len(got.Invites) != 1 || got.Invites[0].Email != "b@x.example" {
		t.Fatalf("got %+v %+v", got.Managers, got.Invites)
	}
	_, err := w.keys.AddManager(w.request(), of("alice"), keys.NewManager{Email: "A@x.example", Sub: "z"})
	wantFault(t, err, fault.Conflict)
	b := must[keys.Manager](t)(w.keys.AddManager(w.request(), of("alice"), keys.NewManager{Email: "B@x.example", Sub: "b"}))
	got = must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), both))
	if len(got.Invites) != 0 || len(got.Managers) != 2 || got.Managers[0].ID != b.ID {
		t.Fatalf("an invite was not taken up: %+v %+v", got.Managers, got.Invites)
	}
	page, total, err := w.keys.ListManagers(w.Context(), of("alice"), store.Page{Limit: 5, Offset: 1})
	if err != nil || total != 2 || len(page) != 1 || page[0].Sub != "a" {
		t.Fatalf("page %+v of %d, %v", page, total, err)
	}
	if p := must[keys.Person](t)(w.keys.ReadManager(w.Context(), of(made.ID), b.ID)); p.ID != b.ID || p.Email != b.Email || p.Sub == nil || *p.Sub != "b" || !p.CreatedOn.Equal(b.CreatedOn) {
		t.Errorf("%+v is read as %+v", b, p)
	}
	must0(t, w.keys.DeleteManager(w.request(), of("alice"), b.ID))
	wantFault(t, w.keys.DeleteManager(w.request(), of("alice"), b.ID), fault.NotFound)
	_, err = w.keys.ReadManager(w.Context(), of("alice"), b.ID)
	wantFault(t, err, fault.NotFound)
	if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{ManagerEmail: "b@x.example"}, all, keys.Include{}); err != nil || total != 0 {
		t.Fatalf("a deleted manager still finds the consumer: %d, %v", total, err)
	}
}

func TestEachConsumerOfALongListHasItsOwnKeys(t *testing.T) {
	const many = 30 // more than are read at the same time
	w := newWorld(t)
	w.bucket()
	want := map[string]string{}
	for i := range many {
		name := fmt.Sprintf("consumer-%d", i)
		w.consumer(name)
		want[name] = w.key(name, keys.NewKey{}).ID
	}
	got, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, all, keys.Include{Keys: true})
	if err != nil || total != many || len(got) != many {
		t.Fatalf("%d of %d, %v", len(got), total, err)
	}
	for _, c := range got {
		if len(c.Keys) != 1 || c.Keys[0].ID != want[c.Name] {
			t.Errorf("%s has %+v, want %s", c.Name, c.Keys, want[c.Name])
		}
	}
}

func TestAnInviteIsWithdrawnByItsID(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: "alice", Managers: []keys.NewManager{
		{Email: "a@x.example", Sub: "a"}, {Email: "b@x.example", Invite: true}, {Email: "c@x.example", Invite: true},
	}}))
	both := keys.Include{Managers: true, Invites: true}
	wantFault(t, w.keys.DeleteManager(w.request(), of("alice"), "minv_none"), fault.NotFound)
	before := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), both))
	if p := must[keys.Person](t)(w.keys.ReadManager(w.Context(), of("alice"), before.Invites[0].ID)); p.Email != before.Invites[0].Email || p.Sub != nil {
		t.Errorf("the invite %+v is read as %+v", before.Invites[0], p)
	}
	must0(t, w.keys.DeleteManager(w.request(), of("alice"), before.Invites[0].ID))
	_, err := w.keys.ReadManager(w.Context(), of("alice"), before.Invites[0].ID)
	wantFault(t, err, fault.NotFound)
	after := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), both))
	if len(after.Managers) != 1 || len(after.Invites) != 1 || after.Invites[0] != before.Invites[1] {
		t.Errorf("left of %+v %+v are %+v %+v", before.Managers, before.Invites, after.Managers, after.Invites)
	}
}

func TestConsumerHasAtMostFiftyManagers(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	many := make([]keys.NewManager, 50)
	for i := range many {
		many[i] = keys.NewManager{Email: fmt.Sprintf("m%d@x.example", i), Sub: "s"}
	}
	many[0], many[1] = keys.NewManager{Email: "m0@x.example", Invite: true}, keys.NewManager{Email: "m1@x.example", Invite: true}
	must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
		Name: "alice", Managers: many, WithKey: true,
		Tags: map[string]string{"a": "", "b": "", "c": "", "d": "", "e": ""},
	}))
	_, err := w.keys.AddManager(w.request(), of("alice"), keys.NewManager{Email: "one@more.example", Sub: "s"})
	wantFault(t, err, fault.Conflict)
	w.bulk("alice", 39)
	must0(t, w.keys.DeleteConsumer(w.request(), of("alice")))
	w.settle()
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
	w.settle()
	if left := w.leftovers(); len(left) > 0 {
		t.Fatalf("%d items are left, such as %s", len(left), left[0])
	}
}

func TestGatewaySeesTheConsumersNameAndMetadata(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	made := must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
		Name: "alice", Metadata: json.RawMessage(`{"plan":"gold"}`), WithKey: true,
	}))
	id, _ := w.opens(made.Keys[0].Text)
	if id.Sub != "alice" || string(id.Data) != `{"plan":"gold"}` || id.ConsumerID != made.ID || id.KeyID != made.Keys[0].ID {
		t.Fatalf("got %+v", id)
	}
	must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"plan":"tin"}`))}))
	if id, _ = w.opens(made.Keys[0].Text); string(id.Data) != `{"plan":"tin"}` {
		t.Fatalf("after the update: %s", id.Data)
	}
}

func TestChangesOfOneConsumerAtOnceAllLast(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	var group sync.WaitGroup
	var mu sync.Mutex
	var made []keys.Key
	for range 6 {
		group.Go(func() {
			for range 5 {
				k, err := w.keys.CreateKey(w.request(), of("alice"), keys.NewKey{})
				if fault.Is(err, fault.Throttled) {
					continue // told to come again
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				made = append(made, k)
				mu.Unlock()
			}
		})
	}
	for i := range 10 {
		group.Go(func() {
			_, err := w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)))})
			if err != nil && !fault.Is(err, fault.Throttled) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := w.list("alice"); len(got) != len(made) {
		t.Fatalf("%d keys are listed, %d were made", len(got), len(made))
	}
	c := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{}))
	for _, k := range made {
		if id, ok := w.opens(k.Text); !ok || string(id.Data) != string(c.Metadata) {
			t.Fatalf("a key has the metadata %s, its consumer %s", id.Data, c.Metadata)
		}
	}
}

func TestOneNameIsMadeOnceByManyAtOnce(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	var group sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 8 {
		group.Go(func() {
			_, err := w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: "alice"})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, all, keys.Include{}); won != 1 || total != 1 || err != nil {
		t.Fatalf("%d made it, %d are counted, %v", won, total, err)
	}
}

// TestListReadsNoMoreThanItsPageHolds: a page that has to end early ends its
// reads, too: no keys are read for what is not on it, and of consumers what is read
// at a time.
func TestListReadsNoMoreThanItsPageHolds(t *testing.T) {
	const consumers, fitting = 300, 10
	w := newWorld(t)
	w.bucket()
	var managers []keys.NewManager
	for i := range 50 { // 25 KB a consumer, the largest there are
		managers = append(managers, keys.NewManager{Email: fmt.Sprintf("%d-%s@example.com", i, strings.Repeat("x", 200)), Sub: strings.Repeat("s", 200)})
	}
	for i := range consumers {
		name := fmt.Sprintf("c-%03d", i)
		must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
			Name: name, WithKey: true, Managers: managers, Tags: map[string]string{"a": "1"},
		}))
	}
	const whole = consumers * 25 / 4 // units at least
	for _, tt := range []struct {
		name   string
		filter keys.Filter
		keys   bool
		units  float64 // at most
	}{
		{"all", keys.Filter{}, false, whole / 5},
		{"all with keys", keys.Filter{}, true, whole / 5},
		{"filtered", keys.Filter{Tags: map[string]string{"a": "1"}}, false, whole/2 + 20},
		{"filtered with keys", keys.Filter{Tags: map[string]string{"a": "1"}}, true, whole/2 + 20},
	} {
		include := keys.Include{Keys: tt.keys, Format: keys.Masked, Managers: true, Fits: func() func(keys.Consumer) bool {
			left := fitting
			return func(keys.Consumer) bool {
				left--
				return left >= 0
			}
		}}
		meter := &store.Meter{}
		got, _, total, err := w.keys.ListConsumers(store.WithMeter(w.Context(), meter), in(bucket), tt.filter, all, include)
		used := meter.Usage()
		if err != nil || len(got) != fitting || total != consumers || got[fitting-1].Name != "c-009" || tt.keys != (len(got[0].Keys) == 1) {
			t.Errorf("%s: %d of %d consumers: %v", tt.name, len(got), total, err)
		}
		if used.ReadUnits > tt.units || used.Queries > 5+fitting {
			t.Errorf("%s: %.0f units were read, at most %.0f are, in %d reads and %d queries", tt.name, used.ReadUnits, tt.units, used.Reads, used.Queries)
		}
	}
}

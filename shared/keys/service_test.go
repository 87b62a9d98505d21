package keys_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// lasting reports whether records at key stay after everything was deleted.
func lasting(key store.Key) bool {
	for _, prefix := range []string{"buckets#", "audit#", "operation#"} {
		if strings.HasPrefix(key.PK, prefix) {
			return true
		}
	}
	return false
}

func TestBucketIsReadByNameAndByID(t *testing.T) {
	w := newWorld(t)
	made := must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{
		Name: bucket, Description: "for orders", Tags: map[string]string{"team": "a"},
	}))
	if made.Token != "" {
		t.Error("the creation shows the token")
	}
	for _, name := range []string{bucket, made.ID} {
		got := must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), in(name)))
		if got.ID != made.ID || got.Description != "for orders" || got.Tags["team"] != "a" || !got.Retrievable || !strings.HasPrefix(got.Token, "gwb_") {
			t.Errorf("read by %s: %+v", name, got)
		}
	}
}

func TestBucketNameIsUniqueInItsAccount(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	_, err := w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: bucket})
	wantFault(t, err, fault.Conflict)
	other := keys.Owner{AccountID: "another", Account: "other", Viewer: everything{}}
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), other, keys.NewBucket{Name: bucket}))
}

func TestBucketOfAnotherAccountReadsLikeAnAbsentOne(t *testing.T) {
	w := newWorld(t)
	made := w.bucket()
	other := keys.Owner{AccountID: "another", Account: "other", Viewer: everything{}}
	_, absent := w.keys.ReadBucket(w.Context(), in("nothing-here"))
	for _, name := range []string{bucket, made.ID} {
		_, err := w.keys.ReadBucket(w.Context(), keys.BucketAt{Owner: other, Bucket: name})
		wantFault(t, err, fault.NotFound)
		if err.Error() != absent.Error() {
			t.Errorf("foreign: %q, absent: %q", err, absent)
		}
	}
}

func TestBucketUpdateReplacesWhatIsGivenAndClearsNull(t *testing.T) {
	w := newWorld(t)
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{
		Name: bucket, Description: "old", Tags: map[string]string{"a": "1", "b": "2"},
	}))
	w.clock.add(time.Hour)
	got := must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), in(bucket), keys.BucketPatch{Tags: keys.To(map[string]string{"c": "3"})}))
	if got.Description != "old" || len(got.Tags) != 1 || got.Tags["c"] != "3" || !got.UpdatedOn.Equal(w.clock.Now()) {
		t.Errorf("after the tags: %+v", got)
	}
	must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), in(bucket), keys.BucketPatch{Description: keys.Clear[string]()}))
	got = must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), in(bucket)))
	if got.Description != "" || got.Tags["c"] != "3" {
		t.Errorf("after the description: %+v", got)
	}
}

func TestDeletedBucketIsGoneAtOnceAndItsNameFreeAtOnce(t *testing.T) {
	w := newWorld(t)
	first := w.bucket()
	w.consumer("alice")
	old := w.key("alice", keys.NewKey{Text: "chosen-by-its-owner"})
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
	for _, name := range []string{bucket, first.ID} {
		_, err := w.keys.ReadBucket(w.Context(), in(name))
		wantFault(t, err, fault.NotFound)
	}
	wantFault(t, w.keys.DeleteBucket(w.request(), in(bucket)), fault.NotFound)
	w.wantOpen(false, old)
	second := w.bucket()
	if second.ID == first.ID {
		t.Fatal("the new bucket has the id of the old one")
	}
	w.wantOpen(false, old)
	_, err := w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{})
	wantFault(t, err, fault.NotFound)
	if _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, all, keys.Include{}); err != nil || total != 0 {
		t.Fatalf("%d consumers, %v", total, err)
	}
	// Nothing has been swept yet, and still the text is free.
	w.consumer("alice")
	again := w.key("alice", keys.NewKey{Text: "chosen-by-its-owner"})
	w.wantOpen(true, again)
	w.settle()
	w.wantOpen(true, again)
}

func TestDeletedBucketIsEmptied(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	for i := range 3 {
		name := fmt.Sprintf("consumer-%d", i)
		must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
			Name: name, WithKey: true, Tags: map[string]string{"n": name},
			Managers: []keys.NewManager{{Email: "a@b.example", Sub: "a"}, {Email: "c@d.example", Invite: true}},
		}))
	}
	w.bulk("consumer-1", 95)
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
	w.settle()
	if left := w.leftovers(); len(left) > 0 {
		t.Fatalf("%d items are left, such as %s", len(left), left[0])
	}
}

func TestLimitedAccountKeySeesItsProjectsBucketsOnly(t *testing.T) {
	w := newWorld(t)
	viewer := auth.Principal{Permissions: auth.Permissions{
		Projects: []string{"shop"}, Environments: []environment.Kind{environment.Production},
	}}
	limited := keys.Owner{AccountID: accountID, Account: account, Viewer: viewer}
	place := func(project, kind string) map[string]string {
		return map[string]string{"project": project, "environmentType": kind}
	}
	for name, tags := range map[string]map[string]string{
		"placed": place("shop", "PRODUCTION"), "preview": place("shop", "PREVIEW"),
		"foreign": place("blog", "PRODUCTION"), "unplaced": nil,
	} {
		must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: name, Tags: tags}))
	}
	got, total, err := w.keys.ListBuckets(w.Context(), limited, all)
	must0(t, err)
	if total != 1 || got[0].Name != "placed" {
		t.Fatalf("sees %+v", got)
	}
	for name, sees := range map[string]bool{"placed": true, "preview": false, "foreign": false, "unplaced": false} {
		if _, err := w.keys.ReadBucket(w.Context(), keys.BucketAt{Owner: limited, Bucket: name}); (err == nil) != sees {
			t.Errorf("%s: %v, want seen %v", name, err, sees)
		}
	}
	_, err = w.keys.CreateBucket(w.request(), limited, keys.NewBucket{Name: "mine-1"})
	wantFault(t, err, fault.Forbidden)
	_, err = w.keys.CreateBucket(w.request(), limited, keys.NewBucket{Name: "mine-2", Tags: place("blog", "PRODUCTION")})
	wantFault(t, err, fault.Forbidden)
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), limited, keys.NewBucket{Name: "mine-3", Tags: place("shop", "PRODUCTION")}))
	// Tags are replaced as a whole; the placement stays.
	at := keys.BucketAt{Owner: limited, Bucket: "mine-3"}
	must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), at, keys.BucketPatch{Tags: keys.To(place("blog", "PREVIEW"))}))
	must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), at))
}

func TestProjectHasThreeBuckets(t *testing.T) {
	w := newWorld(t)
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: "shop-preview", Description: "was there"}))
	writes := must[[]store.Write](t)(w.keys.DefaultBuckets(w.Context(), owner, "shop"))
	must0(t, w.table.Commit(w.Context(), writes...))
	got, _, err := w.keys.ListBuckets(w.Context(), owner, all)
	must0(t, err)
	var names []string
	for _, b := range got {
		names = append(names, b.Name+" "+b.Tags["environmentType"]+b.Description)
	}
	if want := []string{"shop-preview was there", "shop-production PRODUCTION", "shop-working-copy WORKING_COPY"}; !slices.Equal(names, want) {
		t.Fatalf("got %q", names)
	}
	if writes, err := w.keys.DefaultBuckets(w.Context(), owner, "shop"); err != nil || len(writes) != 0 {
		t.Fatalf("a second time: %d writes, %v", len(writes), err)
	}
}

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
		page   keys.Page
		total  int
		want   string
	}{
		{"all", keys.Filter{}, keys.Page{Limit: 3}, 25, "c00 c01 c02"},
		{"offset", keys.Filter{}, keys.Page{Limit: 3, Offset: 23}, 25, "c23 c24"},
		{"beyond", keys.Filter{}, keys.Page{Limit: 3, Offset: 25}, 25, ""},
		{"far beyond", keys.Filter{}, keys.Page{Limit: 3, Offset: 1 << 31}, 25, ""},
		{"tag", keys.Filter{Tags: map[string]string{"five": "yes"}}, keys.Page{Limit: 2, Offset: 1}, 5, "c05 c10"},
		{"tags together", keys.Filter{Tags: map[string]string{"five": "yes", "parity": "odd"}}, keys.Page{Limit: 9}, 2, "c05 c15"},
		{"no such tag", keys.Filter{Tags: map[string]string{"five": "no"}}, keys.Page{Limit: 9}, 0, ""},
		{"manager in any case", keys.Filter{ManagerEmail: "bOSS@example.COM"}, keys.Page{Limit: 9}, 5, "c00 c05 c10 c15 c20"},
		{"manager and tag", keys.Filter{ManagerEmail: "boss@example.com", Tags: map[string]string{"parity": "even"}}, keys.Page{Limit: 9}, 3, "c00 c10 c20"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, total, err := w.keys.ListConsumers(w.Context(), in(bucket), test.filter, test.page, keys.Include{})
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
		got, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{Tags: tags}, all, keys.Include{})
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
		Tags: keys.To(map[string]string{"b": "2", "c": "3"}), Metadata: keys.Clear[json.RawMessage](),
	}))
	for tag, want := range map[[2]string]int{{"a", "1"}: 0, {"b", "2"}: 1, {"c", "3"}: 1} {
		_, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{Tags: map[string]string{tag[0]: tag[1]}}, all, keys.Include{})
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
	page, total, err := w.keys.ListManagers(w.Context(), of("alice"), keys.Page{Limit: 5, Offset: 1})
	if err != nil || total != 2 || len(page) != 1 || page[0].Sub != "a" {
		t.Fatalf("page %+v of %d, %v", page, total, err)
	}
	must0(t, w.keys.DeleteManager(w.request(), of("alice"), b.ID))
	wantFault(t, w.keys.DeleteManager(w.request(), of("alice"), b.ID), fault.NotFound)
	if _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{ManagerEmail: "b@x.example"}, all, keys.Include{}); err != nil || total != 0 {
		t.Fatalf("a deleted manager still finds the consumer: %d, %v", total, err)
	}
}

func TestConsumerHasAtMostFiftyManagers(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	many := make([]keys.NewManager, 50)
	for i := range many {
		many[i] = keys.NewManager{Email: fmt.Sprintf("m%d@x.example", i), Sub: "s"}
	}
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

func TestKeyFormats(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: "forgetful", Unretrievable: true}))
	for _, test := range []struct {
		bucket string
		format keys.Format
		want   func(text string) string
	}{
		{bucket, keys.None, func(string) string { return "" }},
		{bucket, keys.Visible, func(text string) string { return text }},
		{bucket, keys.Masked, func(text string) string { return "****" + text[len(text)-8:] }},
		{bucket, "", func(text string) string { return "****" + text[len(text)-8:] }},
		{"forgetful", keys.Visible, func(text string) string { return "****" + text[len(text)-8:] }},
		{"forgetful", keys.None, func(string) string { return "" }},
	} {
		t.Run(fmt.Sprintf("%s %s", test.bucket, test.format), func(t *testing.T) {
			name := "c-" + string(test.format)
			made := must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(test.bucket), keys.NewConsumer{Name: name, WithKey: true}))
			at := keys.ConsumerAt{BucketAt: in(test.bucket), Consumer: name}
			k := made.Keys[0]
			if !keys.WellFormed(k.Text) {
				t.Fatal("the creation does not show the key")
			}
			read := must[keys.Key](t)(w.keys.ReadKey(w.Context(), at, k.ID, test.format))
			list, _, err := w.keys.ListKeys(w.Context(), at, all, test.format)
			must0(t, err)
			c := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), at, keys.Include{Keys: true, Format: test.format}))
			cs, _, err := w.keys.ListConsumers(w.Context(), in(test.bucket), keys.Filter{}, keys.Page{Limit: 9}, keys.Include{Keys: true, Format: test.format})
			must0(t, err)
			i := slices.IndexFunc(cs, func(c keys.Consumer) bool { return c.Name == name })
			for _, got := range []keys.Key{read, list[0], c.Keys[0], cs[i].Keys[0]} {
				if got.Text != test.want(k.Text) {
					t.Errorf("got %q of %q", got.Text, k.Text)
				}
			}
		})
	}
}

func TestExpiredKeyIsRefused(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	soon := w.key("alice", keys.NewKey{ExpiresOn: new(w.clock.Now().Add(time.Minute))})
	past := w.key("alice", keys.NewKey{ExpiresOn: new(w.clock.Now().Add(-time.Minute))})
	ever := w.key("alice", keys.NewKey{})
	w.wantOpen(true, soon, ever)
	w.wantOpen(false, past)
	w.clock.add(time.Minute)
	w.wantOpen(false, soon)
	w.wantOpen(true, ever)
	// An update that clears the expiry opens again, one that sets it closes.
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), soon.ID, keys.KeyPatch{ExpiresOn: keys.Clear[time.Time]()}))
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), ever.ID, keys.KeyPatch{ExpiresOn: keys.To(w.clock.Now())}))
	w.wantOpen(true, soon)
	w.wantOpen(false, ever)
}

func TestKeyOfAnotherBucketIsRefused(t *testing.T) {
	w := newWorld(t)
	b := w.bucket()
	w.consumer("alice")
	k := w.key("alice", keys.NewKey{})
	other := must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: "other"}))
	for _, test := range []struct {
		ref  keys.BucketRef
		want bool
	}{
		{keys.BucketRef{AccountID: accountID, Name: bucket}, true},
		{keys.BucketRef{AccountID: accountID, ID: b.ID}, true},
		{keys.BucketRef{AccountID: accountID, Name: bucket, ID: b.ID}, true},
		{keys.BucketRef{AccountID: accountID, Name: bucket, ID: other.ID}, false},
		{keys.BucketRef{AccountID: accountID, Name: "other"}, false},
		{keys.BucketRef{AccountID: accountID, ID: other.ID}, false},
		{keys.BucketRef{AccountID: "another", ID: b.ID}, false},
		{keys.BucketRef{AccountID: "another", Name: bucket}, false},
		{keys.BucketRef{AccountID: accountID, Name: "nothing"}, false},
		{keys.BucketRef{AccountID: accountID, ID: "bckt_nothing"}, false},
	} {
		_, err := w.verifier.Verify(w.Context(), test.ref, k.Text)
		if test.want != (err == nil) {
			t.Errorf("%+v: %v", test.ref, err)
		}
		if err != nil {
			wantFault(t, err, fault.Unauthenticated)
		}
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
	must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: keys.To(json.RawMessage(`{"plan":"tin"}`))}))
	if id, _ = w.opens(made.Keys[0].Text); string(id.Data) != `{"plan":"tin"}` {
		t.Fatalf("after the update: %s", id.Data)
	}
}

func TestCustomKeyIsUniqueAndReplaceable(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	first := w.key("alice", keys.NewKey{Text: "first-custom-key!"})
	_, err := w.keys.CreateKey(w.request(), of("alice"), keys.NewKey{Text: "first-custom-key!"})
	wantFault(t, err, fault.Conflict)
	second := w.key("alice", keys.NewKey{})
	_, err = w.keys.UpdateKey(w.request(), of("alice"), second.ID, keys.KeyPatch{Text: "first-custom-key!"})
	wantFault(t, err, fault.Conflict)
	got := must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), first.ID, keys.KeyPatch{Text: "other-custom-key!", Description: keys.To("new")}))
	if got.Text != "****tom-key!" || got.Description != "new" {
		t.Fatalf("got %+v", got)
	}
	w.wantOpen(false, first)
	w.wantOpen(true, keys.Key{Text: "other-custom-key!"}, second)
	// The text that was given up may be taken again.
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), second.ID, keys.KeyPatch{Text: "first-custom-key!"}))
	w.wantOpen(false, second)
	w.wantOpen(true, first)
}

func TestDeletedKeyIsRefusedAndGone(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	k, other := w.key("alice", keys.NewKey{}), w.key("alice", keys.NewKey{})
	must0(t, w.keys.DeleteKey(w.request(), of("alice"), k.ID))
	w.wantOpen(false, k)
	w.wantOpen(true, other)
	_, err := w.keys.ReadKey(w.Context(), of("alice"), k.ID, keys.None)
	wantFault(t, err, fault.NotFound)
	wantFault(t, w.keys.DeleteKey(w.request(), of("alice"), k.ID), fault.NotFound)
	wantFault(t, w.keys.DeleteKey(w.request(), of("alice"), "not-an-id"), fault.NotFound)
	if got := w.list("alice"); len(got) != 1 || got[0].ID != other.ID {
		t.Fatalf("got %+v", got)
	}
}

func TestKeysAreListedNewestFirst(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	var want []string
	for i := range 7 {
		// A clock that goes back, as another instance's may.
		w.clock.add(time.Duration(3-i) * time.Second)
		want = append(want, w.key("alice", keys.NewKey{}).ID)
	}
	slices.Reverse(want)
	got, total, err := w.keys.ListKeys(w.Context(), of("alice"), keys.Page{Limit: 3, Offset: 2}, keys.None)
	must0(t, err)
	var have []string
	for _, k := range got {
		have = append(have, k.ID)
	}
	if total != 7 || !slices.Equal(have, want[2:5]) {
		t.Fatalf("got %d: %v, want %v", total, have, want[2:5])
	}
}

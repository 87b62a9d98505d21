package keys_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// lasting reports whether records at key stay after everything was deleted.
func lasting(key store.Key) bool {
	if audit.IsRecord(key) {
		return true
	}
	for _, prefix := range []string{"buckets#", "operation#", "account-limits#"} {
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

// TestIDOfADeletedBucketLeadsToNoOther whether or not a process remembers whose
// it was.
func TestIDOfADeletedBucketLeadsToNoOther(t *testing.T) {
	w := newWorld(t)
	made := w.bucket()
	must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), in(made.ID)))
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
	anew := w.bucket()
	for _, instance := range w.instances {
		_, err := instance.ReadBucket(w.Context(), in(made.ID))
		wantFault(t, err, fault.NotFound)
		must[keys.Bucket](t)(instance.ReadBucket(w.Context(), in(anew.ID)))
	}
}

func TestBucketNameIsUniqueInItsAccount(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	_, err := w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: bucket})
	wantFault(t, err, fault.Conflict)
	other := auth.Owner{AccountID: "another", Account: "other", Viewer: everything{}}
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), other, keys.NewBucket{Name: bucket}))
}

func TestBucketOfAnotherAccountReadsLikeAnAbsentOne(t *testing.T) {
	w := newWorld(t)
	made := w.bucket()
	other := auth.Owner{AccountID: "another", Account: "other", Viewer: everything{}}
	_, absent := w.keys.ReadBucket(w.Context(), in("nothing-here"))
	for _, name := range []string{bucket, made.ID} {
		_, err := w.keys.ReadBucket(w.Context(), keys.BucketAt{Owner: other, Bucket: name})
		wantFault(t, err, fault.NotFound)
		if err.Error() != absent.Error() {
			t.Errorf("foreign: %q, absent: %q", err, absent)
		}
	}
}

func TestBucketsAreListedInPages(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"first", "second", "third"} {
		must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: name}))
	}
	for _, test := range []struct {
		page store.Page
		want string
	}{
		{store.Page{Limit: 3}, "first second third"},
		{store.Page{Limit: 1}, "first"},
		{store.Page{Limit: 1, Offset: 1}, "second"},
		{store.Page{Limit: 2, Offset: 1}, "second third"},
		{store.Page{Limit: 2, Offset: 2}, "third"},
		{store.Page{Limit: 2, Offset: 3}, ""},
	} {
		got, total, err := w.keys.ListBuckets(w.Context(), owner, test.page)
		must0(t, err)
		var names []string
		for _, b := range got {
			names = append(names, b.Name)
		}
		if strings.Join(names, " ") != test.want || total != 3 {
			t.Errorf("%+v: got %q of %d", test.page, names, total)
		}
	}
}

// TestBucketOfANameNeverMeetsAnEarlierOnesConsumers, whoever makes it: the earlier
// one's are in the table until an operation has deleted them.
func TestBucketOfANameNeverMeetsAnEarlierOnesConsumers(t *testing.T) {
	const name = "shop-production"
	for first := range 2 {
		w := newWorld(t)
		for life := range 6 {
			if (first+life)%2 == 0 {
				must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{
					Name: name, Tags: map[string]string{"project": "shop", "environmentType": "PRODUCTION"},
				}))
			} else {
				buckets := w.keys.DefaultBuckets(owner, "shop")
				must0(t, w.table.Load(w.Context(), buckets.Wanted()...))
				must0(t, w.table.Commit(w.Context(), must[[]store.Write](t)(buckets.Writes(w.Context()))...))
			}
			if _, _, total, err := w.keys.ListConsumers(w.Context(), in(name), keys.Filter{}, all, keys.Include{}); err != nil || total != 0 {
				t.Fatalf("life %d begins with %d consumers, %v", life, total, err)
			}
			must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(name), keys.NewConsumer{Name: "alice"}))
			must0(t, w.keys.DeleteBucket(w.request(), in(name)))
		}
	}
}

func TestBucketUpdateReplacesWhatIsGivenAndClearsNull(t *testing.T) {
	w := newWorld(t)
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{
		Name: bucket, Description: "old", Tags: map[string]string{"a": "1", "b": "2"},
	}))
	w.clock.add(time.Hour)
	got := must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), in(bucket), keys.BucketPatch{Tags: store.PatchTo(map[string]string{"c": "3"})}))
	if got.Description != "old" || len(got.Tags) != 1 || got.Tags["c"] != "3" || !got.UpdatedOn.Equal(w.clock.Now()) {
		t.Errorf("after the tags: %+v", got)
	}
	must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), in(bucket), keys.BucketPatch{Description: store.PatchTo("new")}))
	if got = must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), in(bucket))); got.Description != "new" || got.Tags["c"] != "3" {
		t.Errorf("after another description: %+v", got)
	}
	must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), in(bucket), keys.BucketPatch{Description: store.PatchClear[string]()}))
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
	if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, all, keys.Include{}); err != nil || total != 0 {
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
	limited := auth.Owner{AccountID: accountID, Account: account, Viewer: viewer}
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
	must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), at, keys.BucketPatch{Tags: store.PatchTo(place("blog", "PREVIEW"))}))
	must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), at))
}

func TestProjectHasThreeBuckets(t *testing.T) {
	w := newWorld(t)
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{
		Name: "shop-preview", Description: "was there", Tags: map[string]string{"project": "shop", "environmentType": "PREVIEW"},
	}))
	writes := func() []store.Write {
		buckets := w.keys.DefaultBuckets(owner, "shop")
		must0(t, w.table.Load(w.Context(), buckets.Wanted()...))
		return must[[]store.Write](t)(buckets.Writes(w.Context()))
	}
	must0(t, w.table.Commit(w.Context(), writes()...))
	got, _, err := w.keys.ListBuckets(w.Context(), owner, all)
	must0(t, err)
	var names []string
	for _, b := range got {
		names = append(names, b.Name+" "+b.Tags["environmentType"]+b.Description)
	}
	if want := []string{"shop-preview PREVIEWwas there", "shop-production PRODUCTION", "shop-working-copy WORKING_COPY"}; !slices.Equal(names, want) {
		t.Fatalf("got %q", names)
	}
	// A second time nothing is made, as long as all three are there.
	again := writes()
	if slices.ContainsFunc(again, func(w store.Write) bool { return w.Kind != store.CheckKind }) {
		t.Fatalf("a second time: %v", again)
	}
	must0(t, w.table.Commit(w.Context(), again...))
	must0(t, w.keys.DeleteBucket(w.request(), keys.BucketAt{Owner: owner, Bucket: "shop-preview"}))
	wantFault(t, w.table.Commit(w.Context(), again...), fault.Conflict)
}

package keys_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// isPermanent reports whether the record with this table key stays in the table after everything was deleted.
func isPermanent(key store.Key) bool {
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
	fx := newFixture(t)
	created := must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{
		Name: bucket, Description: "for orders", Tags: map[string]string{"team": "a"},
	}))
	if created.Token != "" {
		t.Error("CreateBucket() shows the token, want it hidden")
	}
	for _, name := range []string{bucket, created.ID} {
		got := must[keys.Bucket](t)(fx.keys.ReadBucket(fx.Context(), bucketAt(name)))
		if got.ID != created.ID || got.Description != "for orders" || got.Tags["team"] != "a" {
			t.Errorf(`ReadBucket(%s) = %+v, want ID %s, description "for orders" and tag team=a`, name, got, created.ID)
		}
		if !got.Retrievable || !strings.HasPrefix(got.Token, "gwb_") {
			t.Errorf("ReadBucket(%s) = %+v, want retrievable keys and a token that begins with gwb_", name, got)
		}
	}
}

// TestIDOfDeletedBucketIsNotReused checks that a new bucket with the name of a deleted bucket has another id. The old
// id must not be found, neither by the process that has cached it nor by another one.
func TestIDOfDeletedBucketIsNotReused(t *testing.T) {
	fx := newFixture(t)
	created := fx.createBucket()
	must[keys.Bucket](t)(fx.keys.ReadBucket(fx.Context(), bucketAt(created.ID)))
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
	recreated := fx.createBucket()
	for _, instance := range fx.instances {
		_, err := instance.ReadBucket(fx.Context(), bucketAt(created.ID))
		wantFault(t, err, fault.NotFound)
		must[keys.Bucket](t)(instance.ReadBucket(fx.Context(), bucketAt(recreated.ID)))
	}
}

func TestBucketNameIsUniqueInItsAccount(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	_, err := fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: bucket})
	wantFault(t, err, fault.Conflict)
	other := auth.Owner{AccountID: "another", Account: "other", Viewer: fullViewer{}}
	must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), other, keys.NewBucket{Name: bucket}))
}

func TestBucketOfAnotherAccountIsNotFound(t *testing.T) {
	fx := newFixture(t)
	created := fx.createBucket()
	other := auth.Owner{AccountID: "another", Account: "other", Viewer: fullViewer{}}
	_, absent := fx.keys.ReadBucket(fx.Context(), bucketAt("nothing-here"))
	for _, name := range []string{bucket, created.ID} {
		_, err := fx.keys.ReadBucket(fx.Context(), keys.BucketLocator{Owner: other, Bucket: name})
		wantFault(t, err, fault.NotFound)
		if err.Error() != absent.Error() {
			t.Errorf("ReadBucket(bucket of another account) error = %q, want %q as for an absent bucket", err, absent)
		}
	}
}

func TestBucketsAreListedInPages(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"first", "second", "third"} {
		must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: name}))
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
		got, total, err := fx.keys.ListBuckets(fx.Context(), owner, test.page)
		noError(t, err)
		var names []string
		for _, b := range got {
			names = append(names, b.Name)
		}
		if strings.Join(names, " ") != test.want || total != 3 {
			t.Errorf("ListBuckets(%+v) = %q of %d, want %q of 3", test.page, names, total, test.want)
		}
	}
}

// TestRecreatedBucketHasNoOldConsumers creates and deletes buckets with the same name, alternately with CreateBucket
// and with DefaultBuckets. A new bucket must not have the consumers of a deleted one, although they stay in the table
// until an operation has deleted them.
func TestRecreatedBucketHasNoOldConsumers(t *testing.T) {
	const name = "shop-production"
	for first := range 2 {
		fx := newFixture(t)
		for round := range 6 {
			if (first+round)%2 == 0 {
				must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{
					Name: name, Tags: map[string]string{"project": "shop", "environmentType": "PRODUCTION"},
				}))
			} else {
				buckets := fx.keys.DefaultBuckets(owner, "shop")
				noError(t, fx.table.Load(fx.Context(), buckets.ReadRequests()...))
				noError(t, fx.table.Commit(fx.Context(), must[[]store.Write](t)(buckets.Writes(fx.Context()))...))
			}
			if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(name), keys.Filter{}, all,
				keys.Include{}); err != nil || total != 0 {
				t.Fatalf("ListConsumers() of bucket %d = %d consumers, %v, want 0 and no error", round, total, err)
			}
			must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(name), keys.NewConsumer{Name: "alice"}))
			noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(name)))
		}
	}
}

func TestUpdateBucketReplacesAndClearsFields(t *testing.T) {
	fx := newFixture(t)
	must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{
		Name: bucket, Description: "old", Tags: map[string]string{"a": "1", "b": "2"},
	}))
	fx.clock.add(time.Hour)
	got := must[keys.Bucket](t)(fx.keys.UpdateBucket(fx.requestContext(), bucketAt(bucket),
		keys.BucketPatch{Tags: store.PatchTo(map[string]string{"c": "3"})}))
	if got.Description != "old" || len(got.Tags) != 1 || got.Tags["c"] != "3" || !got.UpdatedOn.Equal(fx.clock.Now()) {
		t.Errorf("UpdateBucket(tags) = %+v, want tag c=3, description old and updated on %s", got, fx.clock.Now())
	}
	must[keys.Bucket](t)(fx.keys.UpdateBucket(fx.requestContext(), bucketAt(bucket),
		keys.BucketPatch{Description: store.PatchTo("new")}))
	if got = must[keys.Bucket](t)(fx.keys.ReadBucket(fx.Context(), bucketAt(bucket))); got.Description != "new" ||
		got.Tags["c"] != "3" {
		t.Errorf("bucket after UpdateBucket(description) = %+v, want description new and tag c=3", got)
	}
	must[keys.Bucket](t)(fx.keys.UpdateBucket(fx.requestContext(), bucketAt(bucket),
		keys.BucketPatch{Description: store.PatchClear[string]()}))
	got = must[keys.Bucket](t)(fx.keys.ReadBucket(fx.Context(), bucketAt(bucket)))
	if got.Description != "" || got.Tags["c"] != "3" {
		t.Errorf("bucket after its description is cleared = %+v, want no description and tag c=3", got)
	}
}

func TestDeletedBucketIsNotFoundAndItsNameIsFree(t *testing.T) {
	fx := newFixture(t)
	first := fx.createBucket()
	fx.createConsumer("alice")
	old := fx.createKey("alice", keys.NewKey{Text: "chosen-by-its-owner"})
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
	for _, name := range []string{bucket, first.ID} {
		_, err := fx.keys.ReadBucket(fx.Context(), bucketAt(name))
		wantFault(t, err, fault.NotFound)
	}
	wantFault(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)), fault.NotFound)
	fx.checkAccepted(false, old)
	second := fx.createBucket()
	if second.ID == first.ID {
		t.Fatalf("ID of the new bucket = %s as of the deleted one, want another", second.ID)
	}
	fx.checkAccepted(false, old)
	_, err := fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{})
	wantFault(t, err, fault.NotFound)
	if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, all,
		keys.Include{}); err != nil || total != 0 {
		t.Fatalf("ListConsumers(new bucket) = %d consumers, %v, want 0 and no error", total, err)
	}
	// The text can be used again before the operation has deleted the old key.
	fx.createConsumer("alice")
	recreated := fx.createKey("alice", keys.NewKey{Text: "chosen-by-its-owner"})
	fx.checkAccepted(true, recreated)
	fx.finishOperations()
	fx.checkAccepted(true, recreated)
}

func TestDeletedBucketIsEmptied(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	for i := range 3 {
		name := fmt.Sprintf("consumer-%d", i)
		must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
			Name: name, WithKey: true, Tags: map[string]string{"n": name},
			Managers: []keys.NewManager{{Email: "a@b.example", Sub: "a"}, {Email: "c@d.example", Invite: true}},
		}))
	}
	fx.createKeys("consumer-1", 95)
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
	fx.finishOperations()
	if leftover := fx.leftovers(); len(leftover) > 0 {
		t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
	}
}

func TestRestrictedKeySeesOnlyBucketsOfItsProjects(t *testing.T) {
	fx := newFixture(t)
	viewer := auth.Principal{Permissions: auth.Permissions{
		Projects: []string{"shop"}, Environments: []environment.Kind{environment.Production},
	}}
	limited := auth.Owner{AccountID: accountID, Account: account, Viewer: viewer}
	placementTags := func(project, kind string) map[string]string {
		return map[string]string{"project": project, "environmentType": kind}
	}
	for name, tags := range map[string]map[string]string{
		"placed": placementTags("shop", "PRODUCTION"), "preview": placementTags("shop", "PREVIEW"),
		"foreign": placementTags("blog", "PRODUCTION"), "unplaced": nil,
	} {
		must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: name, Tags: tags}))
	}
	got, total, err := fx.keys.ListBuckets(fx.Context(), limited, all)
	noError(t, err)
	if total != 1 || got[0].Name != "placed" {
		t.Fatalf("ListBuckets(restricted key) = %+v, want only the bucket placed", got)
	}
	for name, visible := range map[string]bool{"placed": true, "preview": false, "foreign": false, "unplaced": false} {
		_, err := fx.keys.ReadBucket(fx.Context(), keys.BucketLocator{Owner: limited, Bucket: name})
		if (err == nil) != visible {
			t.Errorf("ReadBucket(%s) error = %v, want visible = %v", name, err, visible)
		}
	}
	_, err = fx.keys.CreateBucket(fx.requestContext(), limited, keys.NewBucket{Name: "mine-1"})
	wantFault(t, err, fault.Forbidden)
	_, err = fx.keys.CreateBucket(fx.requestContext(), limited,
		keys.NewBucket{Name: "mine-2", Tags: placementTags("blog", "PRODUCTION")})
	wantFault(t, err, fault.Forbidden)
	must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), limited,
		keys.NewBucket{Name: "mine-3", Tags: placementTags("shop", "PRODUCTION")}))
	// The update replaces the tags, but the placement stays: the caller can still see the bucket.
	at := keys.BucketLocator{Owner: limited, Bucket: "mine-3"}
	must[keys.Bucket](t)(fx.keys.UpdateBucket(fx.requestContext(), at,
		keys.BucketPatch{Tags: store.PatchTo(placementTags("blog", "PREVIEW"))}))
	must[keys.Bucket](t)(fx.keys.ReadBucket(fx.Context(), at))
}

// TestProjectHasThreeBuckets checks that DefaultBuckets creates the default buckets of a project that do not exist, and
// keeps an existing one. The commit must fail if an existing one is deleted before it.
func TestProjectHasThreeBuckets(t *testing.T) {
	fx := newFixture(t)
	must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{
		Name: "shop-preview", Description: "was there",
		Tags: map[string]string{"project": "shop", "environmentType": "PREVIEW"},
	}))
	writes := func() []store.Write {
		buckets := fx.keys.DefaultBuckets(owner, "shop")
		noError(t, fx.table.Load(fx.Context(), buckets.ReadRequests()...))
		return must[[]store.Write](t)(buckets.Writes(fx.Context()))
	}
	noError(t, fx.table.Commit(fx.Context(), writes()...))
	got, _, err := fx.keys.ListBuckets(fx.Context(), owner, all)
	noError(t, err)
	var names []string
	for _, b := range got {
		names = append(names, b.Name+" "+b.Tags["environmentType"]+b.Description)
	}
	if want := []string{
		"shop-preview PREVIEWwas there", "shop-production PRODUCTION",
		"shop-working-copy WORKING_COPY",
	}; !slices.Equal(names, want) {
		t.Fatalf("buckets of the project = %q, want %q", names, want)
	}
	// All three buckets exist now, so the second call creates none.
	secondWrites := writes()
	if slices.ContainsFunc(secondWrites, func(w store.Write) bool { return w.Kind != store.CheckKind }) {
		t.Fatalf("second call writes %v, want checks only", secondWrites)
	}
	noError(t, fx.table.Commit(fx.Context(), secondWrites...))
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), keys.BucketLocator{Owner: owner, Bucket: "shop-preview"}))
	wantFault(t, fx.table.Commit(fx.Context(), secondWrites...), fault.Conflict)
}

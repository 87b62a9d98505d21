package keys_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

func TestExpiredKeyIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	expiring := fx.createKey("alice", keys.NewKey{ExpiresOn: new(fx.clock.Now().Add(time.Minute))})
	expired := fx.createKey("alice", keys.NewKey{ExpiresOn: new(fx.clock.Now().Add(-time.Minute))})
	permanent := fx.createKey("alice", keys.NewKey{})
	fx.checkAccepted(true, expiring, permanent)
	fx.checkAccepted(false, expired)
	fx.clock.add(time.Minute)
	fx.checkAccepted(false, expiring)
	fx.checkAccepted(true, permanent)
	// An update that clears the expiry makes the expired key valid again, and an update that sets it makes the other
	// key invalid.
	must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), expiring.ID,
		keys.KeyPatch{ExpiresOn: store.PatchClear[time.Time]()}))
	must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), permanent.ID,
		keys.KeyPatch{ExpiresOn: store.PatchTo(fx.clock.Now())}))
	fx.checkAccepted(true, expiring)
	fx.checkAccepted(false, permanent)
}

// TestBucketServesItsPlacement checks that a bucket accepts keys only where it is placed, for references by name and by
// id. Builds of earlier releases refer to buckets only by name.
func TestBucketServesItsPlacement(t *testing.T) {
	for _, test := range []struct {
		tags    map[string]string
		project string
		kind    environment.Kind
		want    bool
	}{
		{nil, "shop", environment.Production, true},
		{map[string]string{"project": "shop"}, "shop", environment.Production, true},
		{map[string]string{"project": "shop"}, "shop", environment.Preview, true},
		{map[string]string{"project": "shop"}, "victim", environment.Production, false},
		{map[string]string{"environmentType": "PREVIEW"}, "shop", environment.Preview, true},
		{map[string]string{"environmentType": "PREVIEW"}, "shop", environment.Production, false},
		{map[string]string{"project": "shop", "environmentType": "WORKING_COPY"}, "shop", environment.Development, true},
		{map[string]string{"project": "shop", "environmentType": "PRODUCTION"}, "shop", environment.Preview, false},
		{map[string]string{"project": "shop", "environmentType": "PRODUCTION"}, "victim", environment.Production, false},
		{map[string]string{"project": "shop", "environmentType": "no kind"}, "shop", environment.Production, true},
	} {
		fx := newFixture(t)
		b := must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner,
			keys.NewBucket{Name: bucket, Tags: test.tags}))
		fx.createConsumer("alice")
		text := fx.createKey("alice", keys.NewKey{}).Text
		for _, ref := range []keys.BucketRef{{Name: bucket}, {ID: b.ID}, {ID: b.ID, Name: bucket}} {
			ref.AccountID, ref.Project, ref.Kind = accountID, test.project, test.kind
			if _, err := fx.verifier.Verify(fx.Context(), ref, text); test.want != (err == nil) {
				t.Errorf("Verify(%+v) in a bucket with tags %v: error = %v, want success %t", ref, test.tags, err, test.want)
			} else if err != nil {
				wantFault(t, err, fault.Unauthenticated)
			}
		}
		found, err := fx.keys.BucketFor(fx.Context(), bucketAt(bucket), test.project, test.kind)
		if test.want != (err == nil) || err == nil && found != (keys.BucketIdentity{ID: b.ID, Name: bucket}) {
			t.Errorf("BucketFor(%s, %s) of a bucket %s with tags %v = %+v, %v, want found %t",
				test.project, test.kind, b.ID, test.tags, found, err, test.want)
		}
	}
}

func TestKeyOfAnotherBucketIsRefused(t *testing.T) {
	fx := newFixture(t)
	b := fx.createBucket()
	fx.createConsumer("alice")
	k := fx.createKey("alice", keys.NewKey{})
	other := must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: "other"}))
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
		_, err := fx.verifier.Verify(fx.Context(), test.ref, k.Text)
		if test.want != (err == nil) {
			t.Errorf("Verify(%+v) error = %v, want success %t", test.ref, err, test.want)
		}
		if err != nil {
			wantFault(t, err, fault.Unauthenticated)
		}
	}
}

// TestRefusalByMissingBucketHasCause checks that the error for a key of a deleted or unknown bucket has a cause for the
// log. Without the cause, every key would be refused and no log would name the reason.
func TestRefusalByMissingBucketHasCause(t *testing.T) {
	fx := newFixture(t)
	b := fx.createBucket()
	fx.createConsumer("alice")
	k := fx.createKey("alice", keys.NewKey{})
	hasCause := func(ref keys.BucketRef, text string) bool {
		ref.AccountID = accountID
		_, err := fx.verifier.Verify(fx.Context(), ref, text)
		wantFault(t, err, fault.Unauthenticated)
		f, _ := errors.AsType[*fault.Fault](err)
		return f.Unwrap() != nil
	}
	if hasCause(keys.BucketRef{Name: bucket}, k.Text+"x") {
		t.Error("error of a wrong key has a cause, want none")
	}
	if err := fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []keys.BucketRef{{Name: bucket}, {ID: b.ID}, {ID: b.ID, Name: bucket}, {Name: "nothing"}} {
		if !hasCause(ref, k.Text) {
			t.Errorf("error for the missing bucket %+v has no cause, want one", ref)
		}
	}
}

func TestTableErrorIsNotUnauthenticated(t *testing.T) {
	broken := errors.New("the table is on fire")
	fx := newFixtureOver(t, memory.New(), func(store.Backend) store.Backend { return failingBackend{broken} })
	_, err := fx.verifier.Verify(fx.Context(), bucketRef(), "a-key-that-is-well-formed")
	if !errors.Is(err, broken) || fault.Is(err, fault.Unauthenticated) {
		t.Fatalf("Verify() with a failing table: error = %v, want %v that is not %v", err, broken, fault.Unauthenticated)
	}
}

type failingBackend struct{ err error }

func (f failingBackend) Read(context.Context, []store.Key) ([]store.Item, error) { return nil, f.err }

func (f failingBackend) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", f.err
}
func (f failingBackend) Transact(context.Context, string, []store.Write) error { return f.err }

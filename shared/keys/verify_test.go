package keys_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

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
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), soon.ID, keys.KeyPatch{ExpiresOn: store.PatchClear[time.Time]()}))
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), ever.ID, keys.KeyPatch{ExpiresOn: store.PatchTo(w.clock.Now())}))
	w.wantOpen(true, soon)
	w.wantOpen(false, ever)
}

// TestBucketServesWhereItIsPlaced, however it is named: a build of an earlier
// release knows a name alone.
func TestBucketServesWhereItIsPlaced(t *testing.T) {
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
		w := newWorld(t)
		b := must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: bucket, Tags: test.tags}))
		w.consumer("alice")
		text := w.key("alice", keys.NewKey{}).Text
		for _, ref := range []keys.BucketRef{{Name: bucket}, {ID: b.ID}, {ID: b.ID, Name: bucket}} {
			ref.AccountID, ref.Project, ref.Kind = accountID, test.project, test.kind
			if _, err := w.verifier.Verify(w.Context(), ref, text); test.want != (err == nil) {
				t.Errorf("a bucket placed at %v, asked for as %+v: %v", test.tags, ref, err)
			} else if err != nil {
				wantFault(t, err, fault.Unauthenticated)
			}
		}
		found, err := w.keys.BucketFor(w.Context(), in(bucket), test.project, test.kind)
		if test.want != (err == nil) || err == nil && found != (keys.BucketID{ID: b.ID, Name: bucket}) {
			t.Errorf("a bucket placed at %v is found for %s %s as %+v: %v", test.tags, test.project, test.kind, found, err)
		}
	}
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

// TestARefusalTellsTheOperatorOfABucketThatIsGone: every key was refused after its
// bucket was deleted, and nothing said why.
func TestARefusalTellsTheOperatorOfABucketThatIsGone(t *testing.T) {
	w := newWorld(t)
	b := w.bucket()
	w.consumer("alice")
	k := w.key("alice", keys.NewKey{})
	tells := func(ref keys.BucketRef, text string) bool {
		ref.AccountID = accountID
		_, err := w.verifier.Verify(w.Context(), ref, text)
		wantFault(t, err, fault.Unauthenticated)
		f, _ := errors.AsType[*fault.Fault](err)
		return f.Unwrap() != nil
	}
	if tells(keys.BucketRef{Name: bucket}, k.Text+"x") {
		t.Error("a wrong key says something of the bucket")
	}
	if err := w.keys.DeleteBucket(w.request(), in(bucket)); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []keys.BucketRef{{Name: bucket}, {ID: b.ID}, {ID: b.ID, Name: bucket}, {Name: "nothing"}} {
		if !tells(ref, k.Text) {
			t.Errorf("%+v: nothing says that the bucket is gone", ref)
		}
	}
}

func TestAStoreThatFailsIsNoRefusal(t *testing.T) {
	broken := errors.New("the table is on fire")
	w := worldOver(t, memory.New(), func(store.Backend) store.Backend { return failing{broken} })
	_, err := w.verifier.Verify(w.Context(), ref(), "a-key-that-is-well-formed")
	if !errors.Is(err, broken) || fault.Is(err, fault.Unauthenticated) {
		t.Fatalf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read(context.Context, []store.Key) ([]store.Item, error) { return nil, f.err }

func (f failing) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", f.err
}
func (f failing) Transact(context.Context, string, []store.Write) error { return f.err }

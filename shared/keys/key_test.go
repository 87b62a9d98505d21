package keys_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
)

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

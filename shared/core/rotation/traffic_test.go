package rotation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// traffic changes the keys of a bucket, as clients do, while the root key is rotated.
type traffic struct {
	*fixture
	longRunning installation.Parts // a process that reads the root keys once per maxAge
	// valid and revoked are texts of keys.
	valid, revoked map[string]bool
	stages         int
}

func newTraffic(t *testing.T) *traffic {
	t.Helper()
	fx := newFixture(t)
	s := keys.Open(fx.process())
	must(s.CreateBucket(fx.request(), owner, keys.NewBucket{Name: "bucket"}))(t)
	must(s.CreateConsumer(fx.request(), consumerAt("bucket").BucketLocator, keys.NewConsumer{Name: "c"}))(t)
	longRunning := fx.process()
	_ = must(longRunning.Key.Root(t.Context()))(t)
	return &traffic{fixture: fx, longRunning: longRunning, valid: map[string]bool{}, revoked: map[string]bool{}}
}

// verify checks all keys in a new process and in the long-running process.
func (t *traffic) verify(stage string) {
	t.Helper()
	for _, p := range []*keys.Verifier{keys.OpenVerifier(t.process()), keys.OpenVerifier(t.longRunning)} {
		for text := range t.valid {
			if _, err := p.Verify(t.Context(), keys.BucketRef{AccountID: "a-1", Name: "bucket"}, text); err != nil {
				t.Fatalf("%s: Verify() of a valid key = %v, want success", stage, err)
			}
		}
		for text := range t.revoked {
			if _, err := p.Verify(t.Context(), keys.BucketRef{AccountID: "a-1", Name: "bucket"},
				text); !fault.Is(err, fault.Unauthenticated) {
				t.Fatalf("%s: Verify(revoked key) = %v, want unauthenticated", stage, err)
			}
		}
	}
}

// changeKeys creates, deletes and updates keys at a stage. It does
// this alternately in a new process and in the long-running process.
func (t *traffic) changeKeys(stage string) {
	t.Helper()
	t.stages++
	p := t.process()
	if t.stages%2 == 0 {
		p = t.longRunning
	}
	s := keys.Open(p)
	for _, n := range []int{1, 26, 27, 33, 34, 40, 41} {
		t.bulk(s, n, stage)
	}
	text := fmt.Sprintf("a-text-of-stage-%d", t.stages)
	k := must(s.CreateKey(t.request(), consumerAt("bucket"), keys.NewKey{Text: text}))(t)
	must(s.UpdateKey(t.request(), consumerAt("bucket"), k.ID, keys.KeyPatch{Text: text + "-another"}))(t)
	t.revoked[text], t.valid[text+"-another"] = true, true
	t.verify(stage)
}

// bulk creates n keys with chosen texts in one request, and deletes all of them except the second.
func (t *traffic) bulk(s *keys.Service, n int, stage string) {
	t.Helper()
	in := make([]keys.NewKey, n)
	for i := range in {
		in[i].Text = fmt.Sprintf("chosen-text-%d-%d-%d", t.stages, n, i)
	}
	created, err := s.CreateKeys(t.request(), consumerAt("bucket"), in)
	if err != nil || len(created) != n {
		t.Fatalf("%s: CreateKeys(%d texts) = %d keys, %v, want %d", stage, n, len(created), err, n)
	}
	// Another bulk with one of these texts is refused as a whole, even by a process that has just started.
	duplicate := make([]keys.NewKey, n)
	duplicate[n-1].Text = in[0].Text
	if _, err := keys.Open(t.process()).CreateKeys(t.request(), consumerAt("bucket"), duplicate); !fault.Is(err,
		fault.Conflict) {
		t.Fatalf("%s: CreateKeys(%d keys, one with a used text) = %v, want a conflict", stage, n, err)
	}
	if err := s.DeleteKey(t.request(), consumerAt("bucket"), created[0].ID); err != nil {
		t.Fatalf("%s: DeleteKey() of the first key = %v, want success", stage, err)
	}
	t.revoked[created[0].Text] = true
	if n > 1 {
		t.valid[created[1].Text] = true
	}
	for i := 2; i < len(created); i++ { // delete most keys, so that a consumer has only a few
		if err := s.DeleteKey(t.request(), consumerAt("bucket"), created[i].ID); err != nil {
			t.Fatalf("%s: DeleteKey() of key %d = %v, want success", stage, i, err)
		}
	}
}

// TestKeyRequestsDuringRotation creates keys in bulk requests whose sizes are around the limit
// of one transaction, and whose texts may be in use under either root key. After the rotation it rolls all
// keys. Keys that any process has revoked or replaced at any stage, or rolled, must not work any more.
func TestKeyRequestsDuringRotation(t *testing.T) {
	w := newTraffic(t)
	w.changeKeys("before")
	previous := "before"
	w.rotate(func(s rotation.Status) {
		if s.Stage != previous {
			previous = s.Stage
			w.changeKeys(s.Stage)
		}
	})
	if w.stages < 5 {
		t.Fatalf("keys were changed at %d stages, want at least 5", w.stages)
	}
	// Roll all keys, including the keys from before the rotation.
	if err := keys.Open(w.process()).RollKey(w.request(), consumerAt("bucket"), w.now.Add(-time.Second)); err != nil {
		t.Fatalf("RollKey() after the rotation = %v, want success", err)
	}
	for text := range w.valid {
		w.revoked[text] = true
	}
	clear(w.valid)
	w.now = w.now.Add(time.Minute)
	w.verify("after a roll")
	if _, _, _, err := keys.Open(w.process()).ListKeys(w.request(), consumerAt("bucket"), store.Page{Limit: 5},
		keys.Visible); err != nil {
		t.Errorf("ListKeys() after a roll = %v, want success", err)
	}
}

// TestRotationReadsUnusualPages checks a rotation with empty pages before the end, pages of one item, and
// pages that also have items of the first page. At the end no data may be left under the old root key.
func TestRotationReadsUnusualPages(t *testing.T) {
	fx := newFixture(t)
	k := fx.fill(60)
	fx.backend.unusualPages = true
	before := sealedValues(fx)
	fx.rotate(nil)
	for value, location := range sealedValues(fx) {
		if before[value] != "" {
			t.Errorf("%s has the same sealed value after the rotation, want another", location)
		}
	}
	for key := range fx.items.Items() {
		if hash, ok := strings.CutPrefix(key.PK, "key-hash#"); ok && !strings.HasPrefix(hash, "2.") {
			t.Errorf("hash of a key = %s, want the prefix 2.", hash)
		}
	}
	fx.checkUsable(fx.process(), k, readsPerCheck, "after")
}

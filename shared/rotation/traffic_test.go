package rotation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
)

// TestAllRequestsAboutKeysAreAnsweredWhileRotated: bulks of every size around what one transaction takes, whose texts may be in
// use under either root key; rolls; and what was revoked, rolled or replaced at any stage opens nothing from then on, whichever process did it.
func TestAllRequestsAboutKeysAreAnsweredWhileRotated(t *testing.T) {
	w := newWorld(t)
	s := keys.Open(w.process())
	must(s.CreateBucket(w.request(), owner, keys.NewBucket{Name: "bucket"}))(t)
	must(s.CreateConsumer(w.request(), at("bucket").BucketAt, keys.NewConsumer{Name: "c"}))(t)
	lasting := w.process() // which looks at the root keys once in an age
	_ = must(lasting.Key.Root(t.Context()))(t)
	valid, ended := map[string]bool{}, map[string]bool{}
	verify := func(when string) {
		t.Helper()
		for _, p := range []*keys.Verifier{keys.OpenVerifier(w.process()), keys.OpenVerifier(lasting)} {
			for text := range valid {
				if _, err := p.Verify(t.Context(), keys.BucketRef{AccountID: "a-1", Name: "bucket"}, text); err != nil {
					t.Fatalf("%s: a valid key is refused: %v", when, err)
				}
			}
			for text := range ended {
				if _, err := p.Verify(t.Context(), keys.BucketRef{AccountID: "a-1", Name: "bucket"}, text); !fault.Is(err, fault.Unauthenticated) {
					t.Fatalf("%s: a key that had ended is answered %v", when, err)
				}
			}
		}
	}
	stages := 0
	round := func(when string) {
		stages++
		p := w.process()
		if stages%2 == 0 {
			p = lasting
		}
		s := keys.Open(p)
		for _, n := range []int{1, 26, 27, 33, 34, 40, 41} {
			in := make([]keys.NewKey, n)
			for i := range in {
				in[i].Text = fmt.Sprintf("chosen-text-%d-%d-%d", stages, n, i)
			}
			made, err := s.CreateKeys(w.request(), at("bucket"), in)
			if err != nil || len(made) != n {
				t.Fatalf("%s: %d chosen keys at once are answered with %d, %v", when, n, len(made), err)
			}
			// Another bulk with a text of that one is refused whole, by whichever process.
			again := make([]keys.NewKey, n)
			again[n-1].Text = in[0].Text
			if _, err := keys.Open(w.process()).CreateKeys(w.request(), at("bucket"), again); !fault.Is(err, fault.Conflict) {
				t.Fatalf("%s: a text that is in use, among %d, is answered with %v", when, n, err)
			}
			if err := s.DeleteKey(w.request(), at("bucket"), made[0].ID); err != nil {
				t.Fatal(err)
			}
			ended[made[0].Text] = true
			if n > 1 {
				valid[made[1].Text] = true
			}
			for i := 2; i < len(made); i++ { // so that a consumer's keys stay few
				if err := s.DeleteKey(w.request(), at("bucket"), made[i].ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		text := fmt.Sprintf("a-text-of-stage-%d", stages)
		k := must(s.CreateKey(w.request(), at("bucket"), keys.NewKey{Text: text}))(t)
		must(s.UpdateKey(w.request(), at("bucket"), k.ID, keys.KeyPatch{Text: text + "-another"}))(t)
		ended[text], valid[text+"-another"] = true, true
		verify(when)
	}
	round("before")
	last := "before"
	w.rotated(func(s rotation.Status) {
		if s.Stage != last {
			last = s.Stage
			round(s.Stage)
		}
	})
	if stages < 5 {
		t.Fatalf("somebody looked at %d stages", stages)
	}
	// A roll of all of them, over keys of both times.
	if err := keys.Open(w.process()).RollKey(w.request(), at("bucket"), w.now.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	for text := range valid {
		ended[text] = true
	}
	clear(valid)
	w.now = w.now.Add(time.Minute)
	verify("after a roll")
	if _, _, _, err := keys.Open(w.process()).ListKeys(w.request(), at("bucket"), store.Page{Limit: 5}, keys.Visible); err != nil {
		t.Error(err)
	}
}

// TestRotationReadsWhateverPagesThereAre: empty ones that are not the end, of one item, and with items that were on the page before. What
// is left of the old root key at the end is nothing.
func TestRotationReadsWhateverPagesThereAre(t *testing.T) {
	w := newWorld(t)
	k := w.filled(60)
	w.backend.odd = true
	before := sealedIn(w)
	w.rotated(nil)
	for value, where := range sealedIn(w) {
		if before[value] != "" {
			t.Errorf("%s is sealed as it was", where)
		}
	}
	for key := range w.items.Items() {
		if hash, ok := strings.CutPrefix(key.PK, "key-hash#"); ok && !strings.HasPrefix(hash, "2.") {
			t.Errorf("a key is known by %s", hash)
		}
	}
	w.holds(w.process(), k, usual, "after")
}

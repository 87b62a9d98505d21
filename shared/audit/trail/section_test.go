package trail_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// sections is an export section by section, with what happens between two of them.
func (w *world) sections(limit int, between func()) (file string, err error) {
	w.Helper()
	links := map[int64]proof.Link{}
	for after := ""; ; between() {
		s, err := w.Section(w.Context(), acme, "acme", after, limit, func(proof.Link) bool { return true })
		if err != nil {
			return "", err
		}
		if len(s.Links) > limit || (s.Next == "") == (s.Header == nil) {
			w.Fatalf("%d links of at most %d, next %q, header %v", len(s.Links), limit, s.Next, s.Header)
		}
		for _, l := range s.Links {
			if _, twice := links[l.Seq]; twice {
				w.Fatalf("record %d comes twice", l.Seq)
			}
			links[l.Seq] = l
		}
		if after = s.Next; after != "" {
			continue
		}
		return written(w, *s.Header, links), nil
	}
}

func written(w *world, h proof.Header, links map[int64]proof.Link) string {
	w.Helper()
	var out bytes.Buffer
	err := proof.WriteFile(&out, h, func(seq int64) (proof.Link, error) {
		l, ok := links[seq]
		if !ok {
			return l, fmt.Errorf("record %d did not come", seq)
		}
		return l, nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return out.String()
}

// proves holds a file to be whole.
func (w *world) proves(file string) proof.Report {
	w.Helper()
	key, err := w.PublicKey(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	r, err := proof.VerifyFile(strings.NewReader(file), key, "acme", proof.Commitment{})
	if err != nil || r.Break != "" {
		w.Fatalf("%+v, %v", r, err)
	}
	return r
}

// TestExportBySections: it is the file that an export in one writes, whatever the sections' length, and has what was chained as it
// began: what comes meanwhile, early or late, is not in it.
func TestExportBySections(t *testing.T) {
	simulations.Sequential(t)
	for seed := range uint64(simulations.Runs(20)) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t)
		for range 1 + r.IntN(40) {
			w.record(some(r, 20*24*time.Hour))
		}
		w.chain()
		var whole bytes.Buffer
		if _, err := w.Export(t.Context(), acme, "acme", &whole); err != nil {
			t.Fatal(err)
		}
		file, err := w.sections(1+r.IntN(12), func() {
			for range r.IntN(4) {
				w.record(some(r, 20*24*time.Hour))
			}
			w.chain()
		})
		if err != nil {
			t.Fatal(err)
		}
		if file != whole.String() {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, file, whole.String())
		}
		w.proves(file)
	}
}

// TestExportBySectionsAfterRetention: what has expired is not in it, and is no break.
func TestExportBySectionsAfterRetention(t *testing.T) {
	w := newWorld(t)
	const day = 24 * time.Hour
	for range 3 {
		w.record(change{action: "key-bucket.create", actor: "akey_1"}, change{action: "key-bucket.delete", actor: "akey_1"})
		w.chain()
		w.now = w.now.Add(40 * day)
	}
	for _, left := range []int64{4, 2, 0} { // 120 days on, 160 and 200
		file, err := w.sections(3, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if r := w.proves(file); r.Records() != left {
			t.Errorf("it has %d records, want %d:\n%s", r.Records(), left, file)
		}
		w.now = w.now.Add(40 * day)
	}
	w.now = w.now.Add(-111 * day)
	file, err := w.sections(1, func() { w.now = w.now.Add(2 * day) })
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("records expire during an export: %v\n%s", err, file)
	}
}

// TestAnExportIsSignedForNoOneWhoRemoves: the header says that nothing was removed up to the end, and is signed only
// where that is so.
func TestAnExportIsSignedForNoOneWhoRemoves(t *testing.T) {
	remove := func(of func(seq int64) bool) func(w *world) {
		return func(w *world) {
			for k, item := range w.items.Items() {
				if audit.IsRecord(k) && of(numbersOf(w, item).Seq) {
					w.remove(k)
				}
			}
		}
	}
	for name, act := range map[string]func(*world){
		"one in the middle":        remove(func(seq int64) bool { return seq == 3 }),
		"the first":                remove(func(seq int64) bool { return seq == 1 }),
		"the last":                 remove(func(seq int64) bool { return seq == 6 }),
		"all":                      remove(func(int64) bool { return true }),
		"one between two sections": func(w *world) {},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := chained(t, 6)
			act(w)
			between := func() {}
			if strings.Contains(name, "between") {
				between = func() { remove(func(seq int64) bool { return seq > 3 })(w) }
			}
			file, err := w.sections(2, between)
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("%v, with the file\n%s", err, file)
			}
		})
	}
	head := store.Space("audit-head").Key(acme)
	t.Run("another end", func(t *testing.T) {
		w, _ := chained(t, 6)
		remove(func(seq int64) bool { return seq > 4 })(w)
		w.set(head, store.Set(store.At("seq"), 4), store.Add(store.At("version"), 1))
		if file, err := w.sections(10, func() {}); err == nil {
			t.Errorf("it is signed:\n%s", file)
		}
	})
	t.Run("no end", func(t *testing.T) {
		w, _ := chained(t, 6)
		w.remove(head)
		if file, err := w.sections(10, func() {}); !fault.Is(err, fault.Conflict) {
			t.Errorf("%v, with the file\n%s", err, file)
		}
	})
}

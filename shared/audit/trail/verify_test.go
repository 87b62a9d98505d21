package trail_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// chained makes a world in which so many records are chained, a second apart, and
// gives their keys in the chain's order.
func chained(t testing.TB, n int, key ...byte) (w *world, keys []store.Key) {
	w = newWorld(t)
	copy(w.key[:], key)
	for i := range n {
		w.record(change{action: "key-bucket.create", actor: "akey_1", ago: time.Duration(n-i) * time.Second})
		for _, r := range w.stream {
			e := audit.Entry{Timestamp: audit.Timestamp(w.now.Add(-time.Duration(n-i) * time.Second)), RequestID: strings.SplitN(r.Key.SK, "#", 2)[1]}
			keys = append(keys, audit.ChainedKey(acme, e))
		}
		w.chain()
	}
	w.verify(int64(n))
	return w, keys
}

// put writes an item as it is, as who may write the table can.
func (w *world) put(key store.Key, item store.Item) {
	w.Helper()
	item = maps.Clone(item)
	maps.Copy(item, key.Item())
	w.remove(key)
	if err := w.items.Transact(w.Context(), fmt.Sprint("put", rand.Uint64()), []store.Write{{Kind: store.PutKind, Key: key, Item: item}}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(keys ...store.Key) {
	w.Helper()
	for _, k := range keys {
		if err := w.table.Commit(w.Context(), store.Delete(k)); err != nil {
			w.Fatal(err)
		}
	}
}

// set changes one attribute.
func (w *world) set(key store.Key, changes ...store.Change) {
	w.Helper()
	if err := w.table.Commit(w.Context(), store.Update(key, changes...)); err != nil {
		w.Fatal(err)
	}
}

// numbers are those of an item that matter here.
type numbers struct {
	Seq int64 `dynamodbav:"seq"`
	TTL int64 `dynamodbav:"ttl"`
}

func numbersOf(t testing.TB, item store.Item) (n numbers) {
	if err := store.Decode(item, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestVerificationNoticesWhatWasDone does to the table of ten records what who may
// write it can do.
func TestVerificationNoticesWhatWasDone(t *testing.T) {
	head := store.Space("audit-head").Key(acme)
	tests := []struct {
		name string
		do   func(w *world, keys []store.Key, items map[store.Key]store.Item)
		want string // "" for nothing
	}{
		{"nothing", func(*world, []store.Key, map[store.Key]store.Item) {}, ""},
		{"one removed", func(w *world, k []store.Key, _ map[store.Key]store.Item) { w.remove(k[4]) }, "record 5 was removed"},
		{"three removed", func(w *world, k []store.Key, _ map[store.Key]store.Item) { w.remove(k[4:7]...) }, "record 5 was removed, as was all up to record 7"},
		{"the first removed", func(w *world, k []store.Key, _ map[store.Key]store.Item) { w.remove(k[0]) }, "record 1 was removed"},
		{"the last removed", func(w *world, k []store.Key, _ map[store.Key]store.Item) { w.remove(k[9]) }, "record 10 was removed"},
		{"all removed", func(w *world, k []store.Key, _ map[store.Key]store.Item) { w.remove(k...) }, "record 1 was removed"},
		{"the end removed", func(w *world, _ []store.Key, _ map[store.Key]store.Item) { w.remove(head) }, "record 1 was inserted: the chain ends before it"},
		{"one altered", func(w *world, k []store.Key, items map[store.Key]store.Item) {
			var l trail.Link
			if err := store.Decode(items[k[4]], &l); err != nil {
				w.Fatal(err)
			}
			w.set(k[4], store.Set(store.At("entry"), strings.Replace(l.Entry, "akey_1", "akey_2", 1)))
		}, "record 5 was altered: its content"},
		{"one hidden", func(w *world, k []store.Key, _ map[store.Key]store.Item) {
			w.set(k[4], store.Set(store.At("ttl"), 1))
		}, "record 5 was removed"},
		{"one kept longer", func(w *world, k []store.Key, _ map[store.Key]store.Item) {
			w.set(k[4], store.Set(store.At("ttl"), 99999999999))
		}, "record 5 was altered"},
		{"one unreadable", func(w *world, k []store.Key, _ map[store.Key]store.Item) {
			w.set(k[4], store.Set(store.At("hash"), 1))
		}, "record 5 was altered"},
		{"one copied", func(w *world, k []store.Key, items map[store.Key]store.Item) {
			w.put(store.In(k[4].PK, "2026-03-14T09:00:00.000Z", "x"), items[k[4]])
		}, "record 5 was moved or copied"},
		{"two exchanged", func(w *world, k []store.Key, items map[store.Key]store.Item) {
			w.put(k[4], items[k[5]])
			w.put(k[5], items[k[4]])
		}, "record 5 was moved or copied"},
		{"one inserted with a chain of their own", func(w *world, _ []store.Key, _ map[store.Key]store.Item) {
			other, theirs := chained(w, 10, 2) // under a root key of their own
			for i, item := range other.items.Items() {
				if at := slices.Index(theirs, i); at >= 4 || i == head {
					w.put(i, item)
				}
			}
		}, "record 5 was altered or inserted: it is not signed by this installation"},
		{"the end put back", func(w *world, k []store.Key, _ map[store.Key]store.Item) {
			w.set(head, store.Set(store.At("seq"), 9), store.Add(store.At("version"), 1))
			w.remove(k[9])
		}, "record 9 is not the end of the chain"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			w, keys := chained(t, 10)
			c.do(w, keys, w.items.Items())
			r, err := w.Verify(t.Context(), acme, proof.Commitment{})
			if err != nil || !strings.HasPrefix(r.Break, c.want) || c.want == "" && r.Break != "" {
				t.Errorf("%+v, %v, want %q", r, err, c.want)
			}
		})
	}
}

// TestCutEndIsNoticedByWhatWasNoted: who may write the table can put the whole chain
// back to an earlier state, which only a place that was noted elsewhere tells.
func TestCutEndIsNoticedByWhatWasNoted(t *testing.T) {
	w, _ := chained(t, 3)
	before := w.items.Clone()
	w.record(change{action: "secret.delete"})
	w.chain()
	r, err := w.Verify(t.Context(), acme, proof.Commitment{})
	if err != nil || r.End.Seq != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	noted, err := proof.ParseCommitment(r.End.String())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.Verify(t.Context(), acme, noted); err != nil || r.Break != "" {
		t.Errorf("%+v, %v", r, err)
	}
	w.items.Restore(before)
	if r, err := w.Verify(t.Context(), acme, noted); err != nil || !strings.HasPrefix(r.Break, "record 4 was removed") {
		t.Errorf("%+v, %v", r, err)
	}
	w.record(change{action: "harmless.create"}) // and something else in its place
	w.chain()
	if r, err := w.Verify(t.Context(), acme, noted); err != nil || !strings.HasPrefix(r.Break, "record 4 is another") {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "4", "x:y", "0:y", "4:"} {
		if _, err := proof.ParseCommitment(bad); err == nil {
			t.Errorf("%q is a commitment", bad)
		}
	}
}

// TestRetentionRemovesTheOldestAndIsNoBreak: at any time the chain verifies, what
// has expired is gone from its front, and a removal of the oldest that is left is
// noticed.
func TestRetentionRemovesTheOldestAndIsNoBreak(t *testing.T) {
	simulations.Sequential(t)
	for seed := range uint64(simulations.Runs(15)) {
		r := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(t)
		for range 5 {
			for range 1 + r.IntN(8) {
				w.record(some(r, 20*24*time.Hour)) // late ones among them
			}
			told := w.told()
			r.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
			for _, one := range told {
				w.HandleStream(t.Context(), []store.StreamRecord{one})
			}
			w.now = w.now.Add(time.Duration(r.Int64N(int64(20 * 24 * time.Hour))))
		}
		full := w.items.Clone()
		for range 12 {
			w.now = w.now.Add(time.Duration(r.Int64N(int64(20 * 24 * time.Hour))))
			w.items.Restore(full)
			for k, item := range w.items.Items() { // AWS deletes some of what has expired
				if ttl := numbersOf(t, item).TTL; ttl != 0 && ttl < w.now.Unix() && r.IntN(2) == 0 {
					w.remove(k)
				}
			}
			got, err := w.Verify(t.Context(), acme, proof.Commitment{})
			if err != nil || got.Break != "" {
				t.Fatalf("seed %d: %+v, %v", seed, got, err)
			}
			if got.First == 0 {
				continue
			}
			for k, item := range w.items.Items() {
				if audit.IsRecord(k) && numbersOf(t, item).Seq == got.First {
					w.remove(k)
				}
			}
			if got, err = w.Verify(t.Context(), acme, proof.Commitment{}); err != nil || got.Break == "" {
				t.Fatalf("seed %d: the oldest is removed: %+v, %v", seed, got, err)
			}
		}
	}
}

// TestExportVerifiesAnywhere: with the public key alone, and what was done to the
// file is noticed.
func TestExportVerifiesAnywhere(t *testing.T) {
	w, _ := chained(t, 6)
	key, err := w.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if key, err = proof.ParsePublicKey(key.String()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if r, err := w.Export(t.Context(), acme, "acme", &out); err != nil || r.Break != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 7 {
		t.Fatal(out.String())
	}
	without := func(i, n int) string {
		return strings.Join(append(append([]string(nil), lines[:i]...), lines[i+n:]...), "")
	}
	tests := []struct{ name, file, want string }{
		{"as it is", out.String(), ""},
		{"one removed", without(3, 1), "record 3 was removed"},
		{"the first removed", without(1, 1), "record 1 was removed"},
		{"the last removed", without(6, 1), "record 6 was removed"},
		{"all removed", lines[0], "record 1 was removed"},
		{"one altered", strings.Replace(out.String(), `\"akey_1\"`, `\"akey_2\"`, 1), "record 1 was altered"},
		{"one twice", strings.Join(append(append([]string(nil), lines[:4]...), lines[3:]...), ""), "record 3 is there twice"},
		{"two exchanged", strings.Join([]string{lines[0], lines[1], lines[3], lines[2], lines[4], lines[5], lines[6]}, ""), "record 2 was removed"},
		{"a shorter chain claimed", strings.Replace(without(6, 1), `"last":6`, `"last":5`, 1), "the first line was altered"},
		{"a later beginning claimed", strings.Replace(without(1, 1), `"first":1`, `"first":2`, 1), "the first line was altered"},
		{"junk behind it", out.String() + "{\n", "record 7 was altered: line 8"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			r, err := proof.VerifyFile(strings.NewReader(c.file), key, acme, proof.Commitment{})
			if err != nil || !strings.HasPrefix(r.Break, c.want) || c.want == "" && (r.Break != "" || r.Records() != 6) {
				t.Errorf("%+v, %v, want %q", r, err, c.want)
			}
		})
	}
	foreign := append(proof.PublicKey(nil), key...)
	foreign[0] ^= 1
	if r, err := proof.VerifyFile(strings.NewReader(out.String()), foreign, acme, proof.Commitment{}); err != nil || r.Break == "" {
		t.Errorf("under another key: %+v, %v", r, err)
	}
	for _, bad := range []string{"", "{}", "x\n"} {
		if _, err := proof.VerifyFile(strings.NewReader(bad), key, acme, proof.Commitment{}); err == nil {
			t.Errorf("%q is an export", bad)
		}
	}
	if _, err := proof.VerifyFile(strings.NewReader(out.String()), key, "acme", proof.Commitment{}); err != nil {
		t.Errorf("by its name: %v", err)
	}
	for _, another := range []string{"another", ""} {
		if _, err := proof.VerifyFile(strings.NewReader(out.String()), key, another, proof.Commitment{}); err == nil {
			t.Errorf("it is the export of the account %q", another)
		}
	}
	var empty bytes.Buffer
	if _, err := w.Export(t.Context(), "nobody", "", &empty); err != nil {
		t.Fatal(err)
	}
	if r, err := proof.VerifyFile(&empty, key, "nobody", proof.Commitment{}); err != nil || r.Break != "" {
		t.Errorf("empty: %+v, %v", r, err)
	}
}

// TestExportIsVerifiedByteForByte: whoever reads a field that stands twice, or a
// text that is spelled otherwise, in their own way reads what was signed.
func TestExportIsVerifiedByteForByte(t *testing.T) {
	simulations.Sequential(t)
	w, _ := chained(t, 2)
	key, err := w.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := w.Export(t.Context(), acme, "acme", &out); err != nil {
		t.Fatal(err)
	}
	whole := strings.TrimSuffix(out.String(), "\n")
	unnoticed := func(file string) bool {
		r, err := proof.VerifyFile(strings.NewReader(file), key, acme, proof.Commitment{})
		return err == nil && r.Break == ""
	}
	if !unnoticed(whole) {
		t.Fatal("it is refused as it is")
	}
	for i := range whole {
		others := []string{"", string(whole[i] ^ 1), string(whole[i] ^ 0x20), whole[i:i+1] + whole[i:i+1]}
		other := others[i%len(others)]
		if file := whole[:i] + other + whole[i+1:]; unnoticed(file) {
			t.Fatalf("%q at byte %d is not noticed: %s", other, i, file[max(0, i-40):min(len(file), i+40)])
		}
	}
	// The last character of a signature has bits that say nothing.
	for i := range whole {
		if strings.HasPrefix(whole[i:], `"}`) && unnoticed(whole[:i-1]+string(whole[i-1]+1)+whole[i:]) {
			t.Errorf("a signature that is spelled otherwise at byte %d is not noticed", i-1)
		}
	}
	for _, added := range []string{`{"entry":"x",`, `{"Entry":"x",`, `{"note":"x",`} {
		for _, line := range []string{`{"account"`, `{"seq"`} {
			if unnoticed(strings.Replace(whole, line, added+line[1:], 1)) {
				t.Errorf("%s before %s is not noticed", added, line)
			}
		}
	}
}

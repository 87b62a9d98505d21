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

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// newChain returns a fixture with n chained records, a second apart, and their keys in the order of the chain. key is
// the beginning of the root key, which is otherwise the same in each fixture.
func newChain(t testing.TB, n int, key ...byte) (fx *fixture, keys []store.Key) {
	fx = newFixture(t)
	copy(fx.key[:], key)
	for i := range n {
		fx.record(change{action: "key-bucket.create", actor: "akey_1", age: time.Duration(n-i) * time.Second})
		for _, r := range fx.stream {
			e := audit.Entry{
				Timestamp: audit.Timestamp(fx.now.Add(-time.Duration(n-i) * time.Second)),
				RequestID: strings.SplitN(r.Key.SK, "#", 2)[1],
			}
			keys = append(keys, audit.ChainedKey(acme, e))
		}
		fx.chain()
	}
	fx.verify(int64(n))
	return fx, keys
}

// put writes an item directly, as an attacker with write access to the table can.
func (fx *fixture) put(key store.Key, item store.Item) {
	fx.Helper()
	item = maps.Clone(item)
	maps.Copy(item, key.Item())
	fx.remove(key)
	if err := fx.items.Transact(fx.Context(), fmt.Sprint("put", rand.Uint64()),
		[]store.Write{{Kind: store.PutKind, Key: key, Item: item}}); err != nil {
		fx.Fatal(err)
	}
}

func (fx *fixture) remove(keys ...store.Key) {
	fx.Helper()
	for _, k := range keys {
		if err := fx.table.Commit(fx.Context(), store.Delete(k)); err != nil {
			fx.Fatal(err)
		}
	}
}

// set changes attributes of an item.
func (fx *fixture) set(key store.Key, changes ...store.Change) {
	fx.Helper()
	if err := fx.table.Commit(fx.Context(), store.Update(key, changes...)); err != nil {
		fx.Fatal(err)
	}
}

// seqAndTTL has the attributes of an item that these tests need.
type seqAndTTL struct {
	Seq int64 `dynamodbav:"seq"`
	TTL int64 `dynamodbav:"ttl"`
}

func seqAndTTLOf(t testing.TB, item store.Item) (n seqAndTTL) {
	if err := store.Decode(item, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestVerifyDetectsChanges changes a table of ten records as an attacker with write access can, and checks which break
// Verify reports.
func TestVerifyDetectsChanges(t *testing.T) {
	head := store.KeyPrefix("audit-head").Key(acme)
	tests := []struct {
		name    string
		corrupt func(fx *fixture, keys []store.Key, items map[store.Key]store.Item)
		want    string // the beginning of the reported break, "" for no break
	}{
		{"no change", func(*fixture, []store.Key, map[store.Key]store.Item) {}, ""},
		{"one record removed", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.remove(k[4])
		}, "record 5 was removed"},
		{"three records removed", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.remove(k[4:7]...)
		}, "record 5 was removed, as was all up to record 7"},
		{"the first record removed", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.remove(k[0])
		}, "record 1 was removed"},
		{"the last record removed", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.remove(k[9])
		}, "record 10 was removed"},
		{"all records removed", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.remove(k...)
		}, "record 1 was removed"},
		{"the head removed", func(fx *fixture, _ []store.Key, _ map[store.Key]store.Item) {
			fx.remove(head)
		}, "record 1 was inserted: the chain ends before it"},
		{"an altered record", func(fx *fixture, k []store.Key, items map[store.Key]store.Item) {
			var l trail.Link
			if err := store.Decode(items[k[4]], &l); err != nil {
				fx.Fatal(err)
			}
			fx.set(k[4], store.Set(store.At("entry"), strings.Replace(l.Entry, "akey_1", "akey_2", 1)))
		}, "record 5 was altered: its content"},
		{"a record with an earlier expiry, which hides it", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.set(k[4], store.Set(store.At("ttl"), 1))
		}, "record 5 was removed"},
		{"a record with a later expiry", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.set(k[4], store.Set(store.At("ttl"), 99999999999))
		}, "record 5 was altered"},
		{"an unreadable record", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.set(k[4], store.Set(store.At("hash"), 1))
		}, "record 5 was altered"},
		{"a copied record", func(fx *fixture, k []store.Key, items map[store.Key]store.Item) {
			fx.put(store.KeyIn(k[4].PK, "2026-03-14T09:00:00.000Z", "x"), items[k[4]])
		}, "record 5 was moved or copied"},
		{"two records exchanged", func(fx *fixture, k []store.Key, items map[store.Key]store.Item) {
			fx.put(k[4], items[k[5]])
			fx.put(k[5], items[k[4]])
		}, "record 5 was moved or copied"},
		{"records inserted from another installation", func(fx *fixture, _ []store.Key, _ map[store.Key]store.Item) {
			other, otherKeys := newChain(fx, 10, 2) // the chain of another installation, with another root key
			for i, item := range other.items.Items() {
				if at := slices.Index(otherKeys, i); at >= 4 || i == head {
					fx.put(i, item)
				}
			}
		}, "record 5 was altered or inserted: it is not signed by this installation"},
		{"the head reset to an earlier record", func(fx *fixture, k []store.Key, _ map[store.Key]store.Item) {
			fx.set(head, store.Set(store.At("seq"), 9), store.Add(store.At("version"), 1))
			fx.remove(k[9])
		}, "record 9 is not the end of the chain"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			fx, keys := newChain(t, 10)
			c.corrupt(fx, keys, fx.items.Items())
			r, err := fx.Verify(t.Context(), acme, proof.Commitment{})
			if err != nil || !strings.HasPrefix(r.Break, c.want) || c.want == "" && r.Break != "" {
				t.Errorf("Verify() = %+v, %v, want the break %q", r, err, c.want)
			}
		})
	}
}

// TestResetChainIsDetectedByCommitment resets the whole chain to an earlier state, as an attacker
// with write access can. It checks that only a commitment that was noted elsewhere reveals this.
func TestResetChainIsDetectedByCommitment(t *testing.T) {
	fx, _ := newChain(t, 3)
	before := fx.items.Clone()
	fx.record(change{action: "secret.delete"})
	fx.chain()
	r, err := fx.Verify(t.Context(), acme, proof.Commitment{})
	if err != nil || r.End.Seq != 4 {
		t.Fatalf("Verify() = %+v, %v, want the end at record 4", r, err)
	}
	expected, err := proof.ParseCommitment(r.End.String())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := fx.Verify(t.Context(), acme, expected); err != nil || r.Break != "" {
		t.Errorf("Verify() with the current commitment = %+v, %v, want no break", r, err)
	}
	fx.items.Restore(before)
	if r, err := fx.Verify(t.Context(), acme, proof.Commitment{}); err != nil || r.Break != "" {
		t.Errorf("Verify() after a reset, without a commitment = %+v, %v, want no break", r, err)
	}
	if r, err := fx.Verify(t.Context(), acme, expected); err != nil ||
		!strings.HasPrefix(r.Break, "record 4 was removed") {
		t.Errorf("Verify() after a reset = %+v, %v, want the break \"record 4 was removed\"", r, err)
	}
	fx.record(change{action: "harmless.create"}) // another record in its place
	fx.chain()
	if r, err := fx.Verify(t.Context(), acme, expected); err != nil || !strings.HasPrefix(r.Break, "record 4 is another") {
		t.Errorf("Verify() after a replacement = %+v, %v, want the break \"record 4 is another\"", r, err)
	}
	for _, bad := range []string{"", "4", "x:y", "0:y", "4:"} {
		if _, err := proof.ParseCommitment(bad); err == nil {
			t.Errorf("ParseCommitment(%q) succeeds, want an error", bad)
		}
	}
}

// TestExpiredRecordsAreNoBreak checks at many times that the chain verifies without its expired records, and that a
// removal of the oldest remaining record is detected.
func TestExpiredRecordsAreNoBreak(t *testing.T) {
	simulations.SkipUnderRace(t)
	for seed := range uint64(simulations.Runs(8)) {
		r := rand.New(rand.NewPCG(seed, 4))
		fx := newFixture(t)
		for range 5 {
			for range 1 + r.IntN(8) {
				fx.record(randomChange(r, 20*24*time.Hour)) // some records are chained late
			}
			events := fx.takeEvents()
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for _, event := range events {
				fx.HandleStream(t.Context(), []store.StreamRecord{event})
			}
			fx.now = fx.now.Add(time.Duration(r.Int64N(int64(20 * 24 * time.Hour))))
		}
		full := fx.items.Clone()
		for range 12 {
			fx.now = fx.now.Add(time.Duration(r.Int64N(int64(20 * 24 * time.Hour))))
			fx.items.Restore(full)
			for k, item := range fx.items.Items() { // AWS deletes some of the expired items
				if ttl := seqAndTTLOf(t, item).TTL; ttl != 0 && ttl < fx.now.Unix() && r.IntN(2) == 0 {
					fx.remove(k)
				}
			}
			got, err := fx.Verify(t.Context(), acme, proof.Commitment{})
			if err != nil || got.Break != "" {
				t.Fatalf("seed %d: Verify() = %+v, %v, want no break", seed, got, err)
			}
			if got.First == 0 {
				continue
			}
			for k, item := range fx.items.Items() {
				if audit.IsRecord(k) && seqAndTTLOf(t, item).Seq == got.First {
					fx.remove(k)
				}
			}
			if got, err = fx.Verify(t.Context(), acme, proof.Commitment{}); err != nil || got.Break == "" {
				t.Fatalf("seed %d: Verify() without the oldest record = %+v, %v, want a break", seed, got, err)
			}
		}
	}
}

// TestExportVerifiesAnywhere checks that the public key is sufficient
// to verify an export, and that changes of the file are detected.
func TestExportVerifiesAnywhere(t *testing.T) {
	fx, _ := newChain(t, 6)
	key, err := fx.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if key, err = proof.ParsePublicKey(key.String()); err != nil {
		t.Fatalf("ParsePublicKey() of the key's String() = %v, want nil", err)
	}
	var out bytes.Buffer
	if r, err := fx.Export(t.Context(), acme, "acme", &out); err != nil || r.Break != "" {
		t.Fatalf("Export() = %+v, %v, want no break", r, err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 7 {
		t.Fatalf("Export() writes %d lines, want 7:\n%s", len(lines), out.String())
	}
	withoutLines := func(i, n int) string {
		return strings.Join(append(append([]string(nil), lines[:i]...), lines[i+n:]...), "")
	}
	tests := []struct{ name, file, want string }{
		{"no change", out.String(), ""},
		{"one record removed", withoutLines(3, 1), "record 3 was removed"},
		{"the first record removed", withoutLines(1, 1), "record 1 was removed"},
		{"the last record removed", withoutLines(6, 1), "record 6 was removed"},
		{"all records removed", lines[0], "record 1 was removed"},
		{"an altered record", strings.Replace(out.String(), `\"akey_1\"`, `\"akey_2\"`, 1), "record 1 was altered"},
		{
			"a repeated record", strings.Join(append(append([]string(nil), lines[:4]...), lines[3:]...), ""),
			"record 3 is there twice",
		},
		{
			"two records exchanged",
			strings.Join([]string{lines[0], lines[1], lines[3], lines[2], lines[4], lines[5], lines[6]}, ""),
			"record 2 was removed",
		},
		{
			"a first line with a shorter chain", strings.Replace(withoutLines(6, 1), `"last":6`, `"last":5`, 1),
			"the first line was altered",
		},
		{
			"a first line with a later beginning", strings.Replace(withoutLines(1, 1), `"first":1`, `"first":2`, 1),
			"the first line was altered",
		},
		{"an invalid last line", out.String() + "{\n", "record 7 was altered: line 8"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			r, err := proof.VerifyFile(strings.NewReader(c.file), key, acme, proof.Commitment{})
			if err != nil || !strings.HasPrefix(r.Break, c.want) || c.want == "" && (r.Break != "" || r.Records() != 6) {
				t.Errorf("VerifyFile() = %+v, %v, want the break %q", r, err, c.want)
			}
		})
	}
	otherKey := append(proof.PublicKey(nil), key...)
	otherKey[0] ^= 1
	if r, err := proof.VerifyFile(strings.NewReader(out.String()), otherKey, acme, proof.Commitment{}); err != nil ||
		r.Break == "" {
		t.Errorf("VerifyFile() with another key = %+v, %v, want a break", r, err)
	}
	for _, bad := range []string{"", "{}", "x\n"} {
		if _, err := proof.VerifyFile(strings.NewReader(bad), key, acme, proof.Commitment{}); err == nil {
			t.Errorf("VerifyFile(%q) succeeds, want an error", bad)
		}
	}
	if _, err := proof.VerifyFile(strings.NewReader(out.String()), key, "acme", proof.Commitment{}); err != nil {
		t.Errorf("VerifyFile() by the account's name = %v, want success", err)
	}
	for _, another := range []string{"another", ""} {
		if _, err := proof.VerifyFile(strings.NewReader(out.String()), key, another, proof.Commitment{}); err == nil {
			t.Errorf("VerifyFile() for the account %q succeeds, want an error", another)
		}
	}
	var empty bytes.Buffer
	if _, err := fx.Export(t.Context(), "nobody", "", &empty); err != nil {
		t.Fatalf("Export() of an account without records = %v, want nil", err)
	}
	if r, err := proof.VerifyFile(&empty, key, "nobody", proof.Commitment{}); err != nil || r.Break != "" {
		t.Errorf("VerifyFile() of an empty export = %+v, %v, want no break", r, err)
	}
}

// TestExportIsVerifiedByteForByte checks that a file with one changed byte, with a duplicate or additional
// field, or with another JSON form of a text is refused, because JSON parsers read such files differently.
func TestExportIsVerifiedByteForByte(t *testing.T) {
	simulations.SkipUnderRace(t)
	fx, _ := newChain(t, 2)
	key, err := fx.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := fx.Export(t.Context(), acme, "acme", &out); err != nil {
		t.Fatal(err)
	}
	full := strings.TrimSuffix(out.String(), "\n")
	verifies := func(file string) bool {
		r, err := proof.VerifyFile(strings.NewReader(file), key, acme, proof.Commitment{})
		return err == nil && r.Break == ""
	}
	if !verifies(full) {
		t.Fatal("VerifyFile() refuses the unchanged export, want no break")
	}
	for i := range full {
		others := []string{"", string(full[i] ^ 1), string(full[i] ^ 0x20), full[i:i+1] + full[i:i+1]}
		other := others[i%len(others)]
		if file := full[:i] + other + full[i+1:]; verifies(file) {
			t.Fatalf("VerifyFile() with %q at byte %d succeeds, want an error or a break: %s",
				other, i, file[max(0, i-40):min(len(file), i+40)])
		}
	}
	// The last character of a signature has unused bits.
	for i := range full {
		if strings.HasPrefix(full[i:], `"}`) && verifies(full[:i-1]+string(full[i-1]+1)+full[i:]) {
			t.Errorf("VerifyFile() with another spelling of a signature at byte %d succeeds, want an error or a break", i-1)
		}
	}
	for _, added := range []string{`{"entry":"x",`, `{"Entry":"x",`, `{"note":"x",`} {
		for _, line := range []string{`{"account"`, `{"seq"`} {
			if verifies(strings.Replace(full, line, added+line[1:], 1)) {
				t.Errorf("VerifyFile() with %s before %s succeeds, want an error or a break", added, line)
			}
		}
	}
}

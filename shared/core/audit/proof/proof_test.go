package proof_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit/proof"
)

// testKey returns a key that is the same in each run.
func testKey(first byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = first + byte(i)
	}
	return ed25519.NewKeyFromSeed(seed)
}

// chain returns the links of a log of three records, as package trail creates them.
func chain(key ed25519.PrivateKey, account string) []proof.Link {
	const end = 1900000000 // in 2030
	return chainExpiringAt(key, account, end)
}

// chainExpiringAt returns a log like chain does. The first record expires
// at end, in seconds since 1970, and each further record a second later.
func chainExpiringAt(key ed25519.PrivateKey, account string, end int64) []proof.Link {
	var all []proof.Link
	for i, entry := range []string{
		`{"action":"key-bucket.create"}`, `{"action":"consumer.create","note":"\"1 2"}`,
		`{"action":"key-bucket.delete"}`,
	} {
		l := proof.Link{Seq: int64(i + 1), Entry: entry, TTL: end + int64(i)}
		if i > 0 {
			l.Previous, l.PreviousTTL = all[i-1].Hash, all[i-1].TTL
		}
		l.Hash = l.Digest(account)
		l.Signature = proof.Record.Sign(key, account, l.Seq, l.Hash)
		all = append(all, l)
	}
	return all
}

const account = "acct_1"

var exportedOn = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// header returns the header of an export of a whole chain.
func header(key ed25519.PrivateKey, links []proof.Link) proof.Header {
	last := links[len(links)-1]
	return proof.Header{
		Account: account, Name: "acme", ExportedOn: exportedOn, First: links[0].Seq, Last: last.Seq, Hash: last.Hash,
	}.Signed(key)
}

// exportFile returns an export with the header h and the given links. It sets h.First to 1 and h.Last to the number of
// links, even if the links have other numbers.
func exportFile(t *testing.T, h proof.Header, links []proof.Link) string {
	t.Helper()
	var b bytes.Buffer
	h.First, h.Last = 1, int64(len(links))
	if err := proof.WriteFile(&b, h, func(seq int64) (proof.Link, error) { return links[seq-1], nil }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestExportOfOlderReleaseVerifies checks that the hashed and signed content of a link never changes.
// The file was written once and must never be regenerated: logs of several years have such links.
func TestExportOfOlderReleaseVerifies(t *testing.T) {
	t.Parallel()
	key := testKey(1)
	golden, err := os.ReadFile("testdata/export.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.VerifyFile(bytes.NewReader(golden), proof.PublicKeyOf(key), "acme", proof.Commitment{})
	if err != nil || r.Break != "" || r.Records() != 3 {
		t.Errorf("VerifyFile(golden file) = %+v, %v, want 3 records and no break", r, err)
	}
	links := chain(key, account)
	if got := exportFile(t, header(key, links), links); got != string(golden) {
		t.Errorf("WriteFile() of the same log =\n%s\nwant\n%s", got, golden)
	}
}

// changedValue returns another value for a field.
func changedValue(v reflect.Value) reflect.Value {
	switch v.Interface().(type) {
	case int64:
		return reflect.ValueOf(v.Int() + 1)
	case string:
		return reflect.ValueOf(v.String() + "x")
	case time.Time:
		return reflect.ValueOf(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	panic("a field of a kind that this test does not know: " + v.Type().String())
}

// TestChangedLinkIsDetected changes each field of a link, including fields that a later release
// adds. The hash covers all fields, and the signature covers the account, the number and the hash.
func TestChangedLinkIsDetected(t *testing.T) {
	t.Parallel()
	key := testKey(1)
	valid := chain(key, account)[1]
	linkType := reflect.TypeFor[proof.Link]()
	for field := range linkType.Fields() {
		l := valid
		v := reflect.ValueOf(&l).Elem().FieldByIndex(field.Index)
		v.Set(changedValue(v))
		if field.Name != "Hash" && field.Name != "Signature" && l.Digest(account) == valid.Hash {
			t.Errorf("Digest() with another %s is the same, want another hash", field.Name)
		}
		if s := proof.PublicKeyOf(key).CheckLink(account, l); s.Problem == "" {
			t.Errorf("CheckLink() with another %s finds no problem, want one", field.Name)
		}
	}
	public := proof.PublicKeyOf(key)
	for name, s := range map[string]proof.CheckedLink{
		"a link of another account":      public.CheckLink("acct_2", valid),
		"a link of another installation": proof.PublicKeyOf(testKey(2)).CheckLink(account, valid),
		"a link signed as a head": public.CheckLink(account,
			withSignature(valid, proof.Head.Sign(key, account, valid.Seq, valid.Hash))),
		"a link with the signature of another link": public.CheckLink(account,
			withSignature(valid, chain(key, account)[0].Signature)),
		"a link signed for another account": public.CheckLink(account,
			withSignature(valid, proof.Record.Sign(key, "acct_2", valid.Seq, valid.Hash))),
	} {
		if s.Problem == "" {
			t.Errorf("CheckLink(%s) finds no problem, want one", name)
		}
	}
	if valid.Digest("acct_2") == valid.Hash {
		t.Error("Digest() for another account is the same, want another hash")
	}
	if s := public.CheckLink(account, valid); s.Problem != "" {
		t.Errorf("CheckLink() of a valid record finds the problem %q, want none", s.Problem)
	}
}

func withSignature(l proof.Link, signature string) proof.Link {
	l.Signature = signature
	return l
}

// TestChangedHeaderIsDetected changes each field of the header, as
// an attacker with write access to the file and without the key could.
func TestChangedHeaderIsDetected(t *testing.T) {
	t.Parallel()
	key := testKey(1)
	links := chain(key, account)
	for field := range reflect.TypeFor[proof.Header]().Fields() {
		h := header(key, links)
		v := reflect.ValueOf(&h).Elem().FieldByIndex(field.Index)
		v.Set(changedValue(v))
		var b bytes.Buffer
		if err := proof.WriteFile(&b, h, func(seq int64) (proof.Link, error) {
			return links[min(seq, 3)-1], nil
		}); err != nil {
			t.Fatal(err)
		}
		if r, err := proof.VerifyFile(&b, proof.PublicKeyOf(key), h.Account, proof.Commitment{}); err == nil &&
			!strings.HasPrefix(r.Break, "the first line was altered") {
			t.Errorf("VerifyFile() with another %s in the header = %+v, want an error or an altered first line", field.Name, r)
		}
	}
}

// TestChangedExportIsReported checks that changes by an attacker without the key are reported with the number of the
// record.
func TestChangedExportIsReported(t *testing.T) {
	t.Parallel()
	key := testKey(1)
	links := chain(key, account)
	otherChain := chain(testKey(2), account)
	restored := chainExpiringAt(key, account, links[0].TTL+1) // a chain with other records, as after a restore
	restored[1].PreviousTTL, restored[1].TTL = links[0].TTL, links[1].TTL
	restored[1].Hash = restored[1].Digest(account)
	restored[1].Signature = proof.Record.Sign(key, account, 2, restored[1].Hash)
	expected := func(seq int64, hash string) proof.Commitment { return proof.Commitment{Seq: seq, Hash: hash} }
	for _, tt := range []struct {
		name     string
		lines    []proof.Link
		expected proof.Commitment
		want     string // the beginning of the reported break, "" for no break
	}{
		{"no change", links, proof.Commitment{}, ""},
		{"no change since a commitment", links, expected(2, links[1].Hash), ""},
		{"the first record removed", links[1:], proof.Commitment{}, "record 1 was removed"},
		{
			"the second record removed",
			[]proof.Link{links[0], links[2]},
			proof.Commitment{},
			"record 2 was removed, as was all up to record 2",
		},
		{"the last record removed", links[:2], proof.Commitment{}, "record 3 was removed"},
		{
			"the first two records exchanged",
			[]proof.Link{links[1], links[0], links[2]},
			proof.Commitment{},
			"record 1 was removed",
		},
		{
			"the last two records exchanged",
			[]proof.Link{links[0], links[2], links[1]},
			proof.Commitment{},
			"record 2 was removed",
		},
		{
			"a repeated record at a later position",
			[]proof.Link{links[0], links[1], links[0], links[2]},
			proof.Commitment{},
			"record 1 comes behind record 2",
		},
		{
			"a repeated record",
			[]proof.Link{links[0], links[1], links[1], links[2]},
			proof.Commitment{},
			"record 2 is there twice",
		},
		{
			"a record signed with another key",
			[]proof.Link{links[0], otherChain[1], links[2]},
			proof.Commitment{},
			"record 2 was altered or inserted",
		},
		{
			"a record of another chain of the installation",
			[]proof.Link{links[0], restored[1], links[2]},
			proof.Commitment{},
			"record 2 does not follow",
		},
		{
			"a record that differs from the commitment", links, expected(2, links[0].Hash),
			"record 2 is another than the one that was noted",
		},
		{"fewer records than in the commitment", links, expected(4, links[0].Hash), "record 4 was removed"},
	} {
		var b strings.Builder
		b.WriteString(strings.SplitAfter(exportFile(t, header(key, links), links), "\n")[0])
		for _, l := range tt.lines {
			b.WriteString(exportLine(t, l))
		}
		r, err := proof.VerifyFile(strings.NewReader(b.String()), proof.PublicKeyOf(key), "acme", tt.expected)
		if err != nil || (tt.want == "") != (r.Break == "") || !strings.HasPrefix(r.Break, tt.want) {
			t.Errorf("%s: VerifyFile() = %+v, %v, want a break that begins with %q (no break if it is empty)",
				tt.name, r, err, tt.want)
		}
	}
}

// TestExpiredRecordCannotBeRemovedFromExport removes a record from an export after the record has expired. VerifyFile
// must report this, because the header has the number of the first record.
func TestExpiredRecordCannotBeRemovedFromExport(t *testing.T) {
	t.Parallel()
	key := testKey(1)
	links := chainExpiringAt(key, account, exportedOn.Unix()-1)
	full := exportFile(t, header(key, links), links)
	if r, err := proof.VerifyFile(
		strings.NewReader(full), proof.PublicKeyOf(key), "acme", proof.Commitment{},
	); err != nil ||
		r.Break != "" {
		t.Errorf("VerifyFile() of the unchanged export = %+v, %v, want no break", r, err)
	}
	cut := strings.Replace(full, exportLine(t, links[0]), "", 1)
	if r, err := proof.VerifyFile(
		strings.NewReader(cut), proof.PublicKeyOf(key), "acme", proof.Commitment{},
	); err != nil ||
		!strings.HasPrefix(r.Break, "record 1 was removed") {
		t.Errorf("VerifyFile() without the first record = %+v, %v, want the break %q", r, err, "record 1 was removed")
	}
}

// exportLine returns the line of a link in an export.
func exportLine(t *testing.T, l proof.Link) string {
	t.Helper()
	return strings.SplitAfterN(exportFile(t, proof.Header{}, []proof.Link{l}), "\n", 2)[1]
}

package proof_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit/proof"
)

// signing is a key that is the same in each run.
func signing(first byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = first + byte(i)
	}
	return ed25519.NewKeyFromSeed(seed)
}

// chain is a log of three records, as package trail makes its links.
func chain(key ed25519.PrivateKey, account string) []proof.Link {
	const end = 1900000000 // in 2030
	return expiring(key, account, end)
}

// expiring is such a log, whose first record expires then, in seconds since 1970, and the others a second later each.
func expiring(key ed25519.PrivateKey, account string, end int64) []proof.Link {
	var all []proof.Link
	for i, entry := range []string{`{"action":"key-bucket.create"}`, `{"action":"consumer.create","note":"\"1 2"}`, `{"action":"key-bucket.delete"}`} {
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

// header is that of an export of all of a chain.
func header(key ed25519.PrivateKey, links []proof.Link) proof.Header {
	last := links[len(links)-1]
	return proof.Header{
		Account: account, Name: "acme", ExportedOn: exportedOn, First: links[0].Seq, Last: last.Seq, Hash: last.Hash,
	}.Signed(key)
}

// file is an export, whose links are those that are given.
func file(t *testing.T, h proof.Header, links []proof.Link) string {
	t.Helper()
	var b bytes.Buffer
	h.First, h.Last = 1, int64(len(links))
	if err := proof.WriteFile(&b, h, func(seq int64) (proof.Link, error) { return links[seq-1], nil }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLogsOfEarlierReleasesStayProved: what is hashed and signed of a link is the same for ever. The file was written once, and no change of the
// product writes it anew: logs of years have such links.
func TestLogsOfEarlierReleasesStayProved(t *testing.T) {
	t.Parallel()
	key := signing(1)
	earlier, err := os.ReadFile("testdata/export.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.VerifyFile(bytes.NewReader(earlier), proof.PublicOf(key), "acme", proof.Commitment{})
	if err != nil || r.Break != "" || r.Records() != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	links := chain(key, account)
	if got := file(t, header(key, links), links); got != string(earlier) {
		t.Errorf("the same log is written as\n%s", got)
	}
}

// other is another value of a field.
func other(v reflect.Value) reflect.Value {
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

// TestEachFieldOfARecordIsProved changes one after the other: those that a later release adds too. What stands there is in the hash, and the signature is
// over the account, the number and the hash.
func TestEachFieldOfARecordIsProved(t *testing.T) {
	t.Parallel()
	key := signing(1)
	good := chain(key, account)[1]
	of := reflect.TypeFor[proof.Link]()
	for field := range of.Fields() {
		l := good
		v := reflect.ValueOf(&l).Elem().FieldByIndex(field.Index)
		v.Set(other(v))
		if field.Name != "Hash" && field.Name != "Signature" && l.Digest(account) == good.Hash {
			t.Errorf("%s is not in the hash", field.Name)
		}
		if s := proof.PublicOf(key).Step(account, l); s.Wrong == "" {
			t.Errorf("%s is altered, and nothing is wrong", field.Name)
		}
	}
	public := proof.PublicOf(key)
	for name, s := range map[string]proof.Step{
		"of another account": public.Step("acct_2", good), "of another installation": proof.PublicOf(signing(2)).Step(account, good),
		"signed as an end": public.Step(account, signed(good, proof.Head.Sign(key, account, good.Seq, good.Hash))), "with another's signature": public.Step(account, signed(good, chain(key, account)[0].Signature)),
		"signed for another account": public.Step(account, signed(good, proof.Record.Sign(key, "acct_2", good.Seq, good.Hash))),
	} {
		if s.Wrong == "" {
			t.Errorf("a record %s is proved", name)
		}
	}
	if good.Digest("acct_2") == good.Hash {
		t.Error("the account is not in the hash")
	}
	if s := public.Step(account, good); s.Wrong != "" {
		t.Errorf("a good record %s", s.Wrong)
	}
}

func signed(l proof.Link, signature string) proof.Link {
	l.Signature = signature
	return l
}

// TestEachFieldOfAnExportsFirstLineIsProved changes one after the other, as somebody does who can write the file and has no key.
func TestEachFieldOfAnExportsFirstLineIsProved(t *testing.T) {
	t.Parallel()
	key := signing(1)
	links := chain(key, account)
	for field := range reflect.TypeFor[proof.Header]().Fields() {
		h := header(key, links)
		v := reflect.ValueOf(&h).Elem().FieldByIndex(field.Index)
		v.Set(other(v))
		var b bytes.Buffer
		if err := proof.WriteFile(&b, h, func(seq int64) (proof.Link, error) { return links[min(seq, 3)-1], nil }); err != nil {
			t.Fatal(err)
		}
		if r, err := proof.VerifyFile(&b, proof.PublicOf(key), h.Account, proof.Commitment{}); err == nil && !strings.HasPrefix(r.Break, "the first line was altered") {
			t.Errorf("%s is altered, and it is %+v", field.Name, r)
		}
	}
}

// TestWhatWasDoneToAnExportIsTold at its record, by somebody who has no key.
func TestWhatWasDoneToAnExportIsTold(t *testing.T) {
	t.Parallel()
	key := signing(1)
	links := chain(key, account)
	stranger := chain(signing(2), account)
	restored := expiring(key, account, links[0].TTL+1) // and went on in another way, as after a restore
	restored[1].PreviousTTL, restored[1].TTL = links[0].TTL, links[1].TTL
	restored[1].Hash = restored[1].Digest(account)
	restored[1].Signature = proof.Record.Sign(key, account, 2, restored[1].Hash)
	noted := func(seq int64, hash string) proof.Commitment { return proof.Commitment{Seq: seq, Hash: hash} }
	for _, tt := range []struct {
		name  string
		lines []proof.Link
		noted proof.Commitment
		want  string // how it is told, "" for nothing
	}{
		{"nothing", links, proof.Commitment{}, ""},
		{"nothing, since it was noted", links, noted(2, links[1].Hash), ""},
		{"the first removed", links[1:], proof.Commitment{}, "record 1 was removed"},
		{"one in the middle removed", []proof.Link{links[0], links[2]}, proof.Commitment{}, "record 2 was removed, as was all up to record 2"},
		{"the last removed", links[:2], proof.Commitment{}, "record 3 was removed"},
		{"two exchanged", []proof.Link{links[1], links[0], links[2]}, proof.Commitment{}, "record 1 was removed"},
		{"the last two exchanged", []proof.Link{links[0], links[2], links[1]}, proof.Commitment{}, "record 2 was removed"},
		{"one that comes again", []proof.Link{links[0], links[1], links[0], links[2]}, proof.Commitment{}, "record 1 comes behind record 2"},
		{"one twice", []proof.Link{links[0], links[1], links[1], links[2]}, proof.Commitment{}, "record 2 is there twice"},
		{"one of another key", []proof.Link{links[0], stranger[1], links[2]}, proof.Commitment{}, "record 2 was altered or inserted"},
		{"one of another chain of the installation", []proof.Link{links[0], restored[1], links[2]}, proof.Commitment{}, "record 2 does not follow"},
		{"another than was noted", links, noted(2, links[0].Hash), "record 2 is another than the one that was noted"},
		{"less than was noted", links, noted(4, links[0].Hash), "record 4 was removed"},
	} {
		var b strings.Builder
		b.WriteString(strings.SplitAfter(file(t, header(key, links), links), "\n")[0])
		for _, l := range tt.lines {
			b.WriteString(line(t, l))
		}
		r, err := proof.VerifyFile(strings.NewReader(b.String()), proof.PublicOf(key), "acme", tt.noted)
		if err != nil || (tt.want == "") != (r.Break == "") || !strings.HasPrefix(r.Break, tt.want) {
			t.Errorf("%s: %+v, %v, want %q", tt.name, r, err, tt.want)
		}
	}
}

// TestWhatHasExpiredSinceAnExportBeganIsInIt: its first line says that it is there, so that its removal is none by age.
func TestWhatHasExpiredSinceAnExportBeganIsInIt(t *testing.T) {
	t.Parallel()
	key := signing(1)
	links := expiring(key, account, exportedOn.Unix()-1)
	whole := file(t, header(key, links), links)
	if r, err := proof.VerifyFile(strings.NewReader(whole), proof.PublicOf(key), "acme", proof.Commitment{}); err != nil || r.Break != "" {
		t.Errorf("as it is: %+v, %v", r, err)
	}
	cut := strings.Replace(whole, line(t, links[0]), "", 1)
	if r, err := proof.VerifyFile(strings.NewReader(cut), proof.PublicOf(key), "acme", proof.Commitment{}); err != nil || !strings.HasPrefix(r.Break, "record 1 was removed") {
		t.Errorf("without its first record: %+v, %v", r, err)
	}
}

// line is a link as an export has it.
func line(t *testing.T, l proof.Link) string {
	t.Helper()
	return strings.SplitAfterN(file(t, proof.Header{}, []proof.Link{l}), "\n", 2)[1]
}

package trail_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// exportSections makes an export section by section, and calls afterEach after each section but the last.
func (fx *fixture) exportSections(limit int, afterEach func()) (file string, err error) {
	fx.Helper()
	links := map[int64]proof.Link{}
	for after := ""; ; afterEach() {
		s, err := fx.Section(fx.Context(), acme, "acme", after, limit, func(proof.Link) bool { return true })
		if err != nil {
			return "", err
		}
		if len(s.Links) > limit || (s.Next == "") == (s.Header == nil) {
			fx.Fatalf("Section() = %d links, next %q, header %v, want at most %d links, and a header only at the end",
				len(s.Links), s.Next, s.Header, limit)
		}
		for _, l := range s.Links {
			if _, duplicate := links[l.Seq]; duplicate {
				fx.Fatalf("Section() returns record %d twice, want it once", l.Seq)
			}
			links[l.Seq] = l
		}
		if after = s.Next; after != "" {
			continue
		}
		return writeExport(fx, *s.Header, links), nil
	}
}

func writeExport(fx *fixture, h proof.Header, links map[int64]proof.Link) string {
	fx.Helper()
	var out bytes.Buffer
	err := proof.WriteFile(&out, h, func(seq int64) (proof.Link, error) {
		l, ok := links[seq]
		if !ok {
			return l, fmt.Errorf("no section has record %d", seq)
		}
		return l, nil
	})
	if err != nil {
		fx.Fatal(err)
	}
	return out.String()
}

// verifyExport checks that VerifyFile finds no break in a file, and returns the report.
func (fx *fixture) verifyExport(file string) proof.Report {
	fx.Helper()
	key, err := fx.PublicKey(fx.Context())
	if err != nil {
		fx.Fatal(err)
	}
	r, err := proof.VerifyFile(strings.NewReader(file), key, "acme", proof.Commitment{})
	if err != nil || r.Break != "" {
		fx.Fatalf("VerifyFile() = %+v, %v, want no break", r, err)
	}
	return r
}

// TestExportBySections checks that an export by sections equals the file of an export in one part, for any size of
// sections. It must have all records that were chained when the export began, and no record that was chained later.
func TestExportBySections(t *testing.T) {
	simulations.SkipUnderRace(t)
	for seed := range uint64(simulations.Runs(10)) {
		r := rand.New(rand.NewPCG(seed, 7))
		fx := newFixture(t)
		for range 1 + r.IntN(40) {
			fx.record(randomChange(r, 20*24*time.Hour))
		}
		fx.chain()
		var full bytes.Buffer
		if _, err := fx.Export(t.Context(), acme, "acme", &full); err != nil {
			t.Fatal(err)
		}
		file, err := fx.exportSections(1+r.IntN(12), func() {
			for range r.IntN(4) {
				fx.record(randomChange(r, 20*24*time.Hour))
			}
			fx.chain()
		})
		if err != nil {
			t.Fatal(err)
		}
		if file != full.String() {
			t.Fatalf("seed %d: export by sections =\n%s\nwant the file of Export():\n%s", seed, file, full.String())
		}
		fx.verifyExport(file)
	}
}

// TestExportBySectionsAfterRetention checks that expired records are not in the export, and that their absence does not
// break the chain. If a record expires during the export, the export must fail.
func TestExportBySectionsAfterRetention(t *testing.T) {
	fx := newFixture(t)
	const day = 24 * time.Hour
	for range 3 {
		fx.record(change{action: "key-bucket.create", actor: "akey_1"}, change{action: "key-bucket.delete", actor: "akey_1"})
		fx.chain()
		fx.now = fx.now.Add(40 * day)
	}
	for _, wantRecords := range []int64{4, 2, 0} { // on day 120, 160 and 200; the records are of the days 0, 40 and 80
		file, err := fx.exportSections(3, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if r := fx.verifyExport(file); r.Records() != wantRecords {
			t.Errorf("export after the retention of older records has %d records, want %d:\n%s", r.Records(), wantRecords, file)
		}
		fx.now = fx.now.Add(40 * day)
	}
	fx.now = fx.now.Add(-111 * day) // a day before the records of day 40 expire
	file, err := fx.exportSections(1, func() { fx.now = fx.now.Add(2 * day) })
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("export while records expire = %v, want a conflict; file:\n%s", err, file)
	}
}

// TestExportWithMissingRecordsIsNotSigned checks that an export with missing records returns an error
// instead of a header, because the signature of the header confirms that no record is missing.
func TestExportWithMissingRecordsIsNotSigned(t *testing.T) {
	remove := func(matches func(seq int64) bool) func(fx *fixture) {
		return func(fx *fixture) {
			for k, item := range fx.items.Items() {
				if audit.IsRecord(k) && matches(seqAndTTLOf(fx, item).Seq) {
					fx.remove(k)
				}
			}
		}
	}
	for name, corrupt := range map[string]func(*fixture){
		"a record in the middle":       remove(func(seq int64) bool { return seq == 3 }),
		"the first record":             remove(func(seq int64) bool { return seq == 1 }),
		"the last record":              remove(func(seq int64) bool { return seq == 6 }),
		"all records":                  remove(func(int64) bool { return true }),
		"records between two sections": func(fx *fixture) {},
	} {
		t.Run(name, func(t *testing.T) {
			fx, _ := newChain(t, 6)
			corrupt(fx)
			between := func() {}
			if strings.Contains(name, "between") {
				between = func() { remove(func(seq int64) bool { return seq > 3 })(fx) }
			}
			file, err := fx.exportSections(2, between)
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("export with missing records = %v, want a conflict; file:\n%s", err, file)
			}
		})
	}
	head := store.KeyPrefix("audit-head").Key(acme)
	t.Run("a head changed to an earlier record", func(t *testing.T) {
		fx, _ := newChain(t, 6)
		remove(func(seq int64) bool { return seq > 4 })(fx)
		fx.set(head, store.Set(store.At("seq"), 4), store.Add(store.At("version"), 1))
		if file, err := fx.exportSections(10, func() {}); err == nil {
			t.Errorf("export with a changed head succeeds, want an error; file:\n%s", file)
		}
	})
	t.Run("no head", func(t *testing.T) {
		fx, _ := newChain(t, 6)
		fx.remove(head)
		if file, err := fx.exportSections(10, func() {}); !fault.Is(err, fault.Conflict) {
			t.Errorf("export without a head = %v, want a conflict; file:\n%s", err, file)
		}
	})
}

package commands_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
)

// fakeAuditLog is an API with an audit log. Its export has pages of three records, in no particular order.
type fakeAuditLog struct {
	key   ed25519.PrivateKey
	links []proof.Link
	// failedExports is the number of exports whose last page says that records have expired.
	failedExports int
	// exports is the number of exports that have begun.
	exports int
}

func newFakeAuditLog(records int) *fakeAuditLog {
	auditLog := &fakeAuditLog{key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	previous := proof.Link{}
	for seq := range int64(records) {
		link := proof.Link{
			Seq: seq + 1, Entry: fmt.Sprintf(`{"action":"key-bucket.create","n":%d}`, seq), TTL: 4e9,
			Previous: previous.Hash, PreviousTTL: previous.TTL,
		}
		link.Hash = link.Digest("id-of-acme")
		link.Signature = proof.Record.Sign(auditLog.key, "id-of-acme", link.Seq, link.Hash)
		auditLog.links, previous = append(auditLog.links, link), link
	}
	return auditLog
}

func (l *fakeAuditLog) handle(w http.ResponseWriter, r *http.Request, _ string) {
	const pageSize = 3
	from := 0
	if after := r.URL.Query().Get("after"); after == "" {
		l.exports++
	} else if _, err := fmt.Sscanf(after, "at-%d", &from); err != nil {
		respondError(w, http.StatusBadRequest, "after")
		return
	}
	to := min(from+pageSize, len(l.links))
	var page struct {
		Links  []proof.Link  `json:"links"`
		Header *proof.Header `json:"header,omitempty"`
		Next   *string       `json:"next"`
	}
	for i := from; i < to; i++ {
		// This visits each record once, because the number of records is not a multiple of 5.
		page.Links = append(page.Links, l.links[(i*5)%len(l.links)])
	}
	switch {
	case to < len(l.links):
		page.Next = new(fmt.Sprintf("at-%d", to))
	case l.exports <= l.failedExports:
		respondError(w, http.StatusConflict, "Records have expired.")
		return
	default:
		last := l.links[len(l.links)-1]
		page.Header = new(proof.Header{
			Account: "id-of-acme", Name: "acme",
			ExportedOn: time.UnixMilli(1_800_000_000_000).UTC(), First: 1, Last: last.Seq, Hash: last.Hash,
		}.Signed(l.key))
	}
	_ = json.NewEncoder(w).Encode(page)
}

// TestExportedAuditLogIsVerified checks that an export can be verified offline, and that manipulated exports are
// detected. Records expire during the first two exports, so `log export` must begin again.
func TestExportedAuditLogIsVerified(t *testing.T) {
	t.Parallel()
	auditLog := newFakeAuditLog(8)
	auditLog.failedExports = 2
	fx := newFixtureWith(t, auditLog.handle)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	got := fx.run("", "log", "export", file, "-o", "json")
	var summary struct{ Records, First, Last, End, PublicKey any }
	if err := json.Unmarshal([]byte(got.out), &summary); err != nil || got.code != exit.OK ||
		fmt.Sprint(summary.Records, summary.First, summary.Last) != "8 1 8" || auditLog.exports != 3 {
		t.Fatalf("log export = %+v after %d exports, want code 0 and the records 1 to 8 after 3", got, auditLog.exports)
	}
	key, end := fmt.Sprint(summary.PublicKey), fmt.Sprint(summary.End)
	remaining, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	if err != nil || len(remaining) > 0 {
		t.Errorf("log export leaves the files %v, %v, want none", remaining, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(content), "\n")
	writeFile(t, file+".cut", strings.Join(append(append([]string(nil), lines[:4]...), lines[5:]...), ""))
	writeFile(t, file+".altered", strings.Replace(string(content), "key-bucket.create", "key-bucket.delete", 1))
	for name, v := range map[string]struct {
		stdin    string
		args     []string
		code     exit.Code
		wantText string
	}{
		"complete export": {"", []string{file, "--public-key", key, "--account", "acme"}, exit.OK, "note the end"},
		"export from stdin": {
			string(content), []string{"-", "--public-key", key, "--account", "id-of-acme"}, exit.OK, "note the end",
		},
		"export with its end noted": {
			"", []string{file, "--public-key", key, "--account", "acme", "--noted", end}, exit.OK, "note the end",
		},
		"export that ends before the noted end": {
			"",
			[]string{file, "--public-key", key, "--account", "acme", "--noted", "9:x"},
			exit.Invalid,
			"record 9 was removed",
		},
		"export with a removed record": {
			"", []string{file + ".cut", "--public-key", key, "--account", "acme"}, exit.Invalid, "broken: record 4 was removed",
		},
		"altered export": {
			"",
			[]string{file + ".altered", "--public-key", key, "--account", "acme"},
			exit.Invalid,
			"broken: record 1 was altered",
		},
		"another account": {"", []string{file, "--public-key", key, "--account", "bea"}, exit.Invalid, "another account"},
		"another key": {
			"",
			[]string{file, "--public-key", strings.Repeat("A", 43), "--account", "acme"},
			exit.Invalid,
			"of another installation",
		},
		"no key":     {"", []string{file, "--account", "acme"}, exit.Usage, "--public-key"},
		"no account": {"", []string{file, "--public-key", key}, exit.Usage, "--account"},
		"short key":  {"", []string{file, "--public-key", "x", "--account", "acme"}, exit.Usage, "43 characters"},
		"invalid noted end": {
			"", []string{file, "--public-key", key, "--account", "acme", "--noted", "x"}, exit.Usage, "--noted",
		},
		"missing file": {
			"", []string{file + ".none", "--public-key", key, "--account", "acme"}, exit.Usage, "cannot be read",
		},
		"text that is no export": {"x\n", []string{"-", "--public-key", key, "--account", "acme"}, exit.Invalid, "no export"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fx.run(v.stdin, append([]string{"log", "verify"}, v.args...)...)
			if got.code != v.code || !strings.Contains(got.err, v.wantText) || v.code != exit.OK && got.out != "" {
				t.Errorf("log verify = %+v, want code %d, %q on stderr, and no output unless the code is %d",
					got, v.code, v.wantText, exit.OK)
			}
		})
	}
	if got := fx.run("", "log", "export", file); got.code != exit.Usage || !strings.Contains(got.err, "is there already") {
		t.Errorf("log export to an existing file = %+v, want code %d and \"is there already\"", got, exit.Usage)
	}
}

// TestBrokenAuditLogIsExportedAndReported checks that the export of a log with an altered record is also written: an
// investigation needs the file. An export that misses a record, or that fails again and again, must leave no file.
func TestBrokenAuditLogIsExportedAndReported(t *testing.T) {
	t.Parallel()
	auditLog := newFakeAuditLog(8)
	auditLog.links[3].Entry = `{"action":"nothing"}`
	fx := newFixtureWith(t, auditLog.handle)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if got := fx.run("", "log", "export", file); got.code != exit.Invalid || got.out != "" ||
		!strings.Contains(got.err, "record 4 was altered") {
		t.Errorf("log export with an altered record 4 = %+v, want code %d, the error %q and no output",
			got, exit.Invalid, "record 4 was altered")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("file of the export of a broken log: %v, want it to exist", err)
	}
	auditLog.links[3] = auditLog.links[4]
	if got := fx.run("", "log", "export", file+".2"); got.code != exit.Invalid ||
		!strings.Contains(got.err, "record 4 did not come") {
		t.Errorf("log export with a missing record 4 = %+v, want code %d and the error %q",
			got, exit.Invalid, "record 4 did not come")
	}
	auditLog = newFakeAuditLog(8)
	auditLog.failedExports = 9
	if got := newFixtureWith(t, auditLog.handle).run("", "log", "export", file+".3"); got.code != exit.Conflict ||
		auditLog.exports != 3 {
		t.Errorf("log export that fails again and again = %+v after %d exports, want code %d after 3",
			got, auditLog.exports, exit.Conflict)
	}
	for _, pattern := range []string{".*", "*.2", "*.3"} { // incomplete exports must not remain
		if remaining, _ := filepath.Glob(filepath.Join(filepath.Dir(file), pattern)); len(remaining) > 0 {
			t.Errorf("log export leaves the files %v, want none that match %s", remaining, pattern)
		}
	}
}

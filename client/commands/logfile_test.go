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
	"github.com/gatewright/gatewright/shared/audit/proof"
)

// chain is an API with an audit log, in pages of three records that are in no order.
type chain struct {
	key   ed25519.PrivateKey
	links []proof.Link
	// expires has the last page of the first so many exports say that records have expired.
	expires int
	begun   int
}

func newChain(records int) *chain {
	c := &chain{key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	before := proof.Link{}
	for seq := range int64(records) {
		l := proof.Link{Seq: seq + 1, Entry: fmt.Sprintf(`{"action":"key-bucket.create","n":%d}`, seq), TTL: 4e9, Previous: before.Hash, PreviousTTL: before.TTL}
		l.Hash = l.Digest("id-of-acme")
		l.Signature = proof.Record.Sign(c.key, "id-of-acme", l.Seq, l.Hash)
		c.links, before = append(c.links, l), l
	}
	return c
}

func (c *chain) answer(w http.ResponseWriter, r *http.Request, _ string) {
	const size = 3
	from := 0
	if after := r.URL.Query().Get("after"); after == "" {
		c.begun++
	} else if _, err := fmt.Sscanf(after, "at-%d", &from); err != nil {
		refuse(w, http.StatusBadRequest, "after")
		return
	}
	to := min(from+size, len(c.links))
	var page struct {
		Links  []proof.Link  `json:"links"`
		Header *proof.Header `json:"header,omitempty"`
		Next   *string       `json:"next"`
	}
	for i := from; i < to; i++ {
		page.Links = append(page.Links, c.links[(i*5)%len(c.links)]) // the number of records is no multiple of 5
	}
	switch {
	case to < len(c.links):
		page.Next = new(fmt.Sprintf("at-%d", to))
	case c.begun <= c.expires:
		refuse(w, http.StatusConflict, "Records have expired.")
		return
	default:
		last := c.links[len(c.links)-1]
		page.Header = new(proof.Header{Account: "id-of-acme", Name: "acme", ExportedOn: time.UnixMilli(1_800_000_000_000).UTC(), First: 1, Last: last.Seq, Hash: last.Hash}.Signed(c.key))
	}
	_ = json.NewEncoder(w).Encode(page)
}

// TestAuditLogIsExportedAndProved: what is written is proved offline, and what was done to it is noticed.
func TestAuditLogIsExportedAndProved(t *testing.T) {
	t.Parallel()
	c := newChain(8)
	c.expires = 2
	l := newLineOf(t, c.answer)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	got := l.run("", "log", "export", file, "-o", "json")
	var told struct{ Records, First, Last, End, PublicKey any }
	if err := json.Unmarshal([]byte(got.out), &told); err != nil || got.code != exit.OK || fmt.Sprint(told.Records, told.First, told.Last) != "8 1 8" || c.begun != 3 {
		t.Fatalf("%+v, begun %d times", got, c.begun)
	}
	key, end := fmt.Sprint(told.PublicKey), fmt.Sprint(told.End)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	write(t, file+".cut", strings.Join(append(append([]string(nil), lines[:4]...), lines[5:]...), ""))
	write(t, file+".altered", strings.Replace(string(whole), "key-bucket.create", "key-bucket.delete", 1))
	for name, v := range map[string]struct {
		stdin string
		words []string
		code  exit.Code
		says  string
	}{
		"as it is":        {"", []string{file, "--public-key", key, "--account", "acme"}, exit.OK, "note the end"},
		"by stdin":        {string(whole), []string{"-", "--public-key", key, "--account", "id-of-acme"}, exit.OK, "note the end"},
		"with its end":    {"", []string{file, "--public-key", key, "--account", "acme", "--noted", end}, exit.OK, "note the end"},
		"put back":        {"", []string{file, "--public-key", key, "--account", "acme", "--noted", "9:x"}, exit.Invalid, "record 9 was removed"},
		"cut":             {"", []string{file + ".cut", "--public-key", key, "--account", "acme"}, exit.Invalid, "broken: record 4 was removed"},
		"altered":         {"", []string{file + ".altered", "--public-key", key, "--account", "acme"}, exit.Invalid, "broken: record 1 was altered"},
		"another account": {"", []string{file, "--public-key", key, "--account", "bea"}, exit.Invalid, "another account"},
		"another key":     {"", []string{file, "--public-key", strings.Repeat("A", 43), "--account", "acme"}, exit.Invalid, "of another installation"},
		"no key":          {"", []string{file, "--account", "acme"}, exit.Usage, "--public-key"},
		"no account":      {"", []string{file, "--public-key", key}, exit.Usage, "--account"},
		"a short key":     {"", []string{file, "--public-key", "x", "--account", "acme"}, exit.Usage, "43 characters"},
		"no end":          {"", []string{file, "--public-key", key, "--account", "acme", "--noted", "x"}, exit.Usage, "--noted"},
		"no file":         {"", []string{file + ".none", "--public-key", key, "--account", "acme"}, exit.Usage, "cannot be read"},
		"no export":       {"x\n", []string{"-", "--public-key", key, "--account", "acme"}, exit.Invalid, "no export"},
	} {
		t.Run(name, func(t *testing.T) {
			got := l.run(v.stdin, append([]string{"log", "verify"}, v.words...)...)
			if got.code != v.code || !strings.Contains(got.err, v.says) || v.code != exit.OK && got.out != "" {
				t.Errorf("%+v, want %d and %q", got, v.code, v.says)
			}
		})
	}
	if got := l.run("", "log", "export", file); got.code != exit.Usage || !strings.Contains(got.err, "is there already") {
		t.Errorf("over a file: %+v", got)
	}
}

// TestBrokenAuditLogIsExportedAndTold: whoever looks for what was done to a log needs the file of it.
func TestBrokenAuditLogIsExportedAndTold(t *testing.T) {
	t.Parallel()
	c := newChain(8)
	c.links[3].Entry = `{"action":"nothing"}`
	l := newLineOf(t, c.answer)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if got := l.run("", "log", "export", file); got.code != exit.Invalid || got.out != "" || !strings.Contains(got.err, "record 4 was altered") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	c.links[3] = c.links[4]
	if got := l.run("", "log", "export", file+".2"); got.code != exit.Invalid || !strings.Contains(got.err, "record 4 did not come") {
		t.Errorf("%+v", got)
	}
	c = newChain(8)
	c.expires = 9
	if got := newLineOf(t, c.answer).run("", "log", "export", file+".3"); got.code != exit.Conflict || c.begun != 3 {
		t.Errorf("%+v, begun %d times", got, c.begun)
	}
	for _, pattern := range []string{".*", "*.2", "*.3"} { // nor is a part of a log under the name that all of it was to have
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), pattern)); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
	}
}

package commands_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gatewright/gatewright/client/exit"
)

// oneBucket is an API with the key bucket partners, which has no consumers, and that changes nothing.
func oneBucket(t *testing.T) *line {
	t.Helper()
	return newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		const bucket = `{"name":"partners","id":"bucket_1"}`
		w.Header().Set("ETag", `"1"`)
		switch r.URL.Path {
		case "/v1/accounts/acme/key-buckets":
			_, _ = io.WriteString(w, `{"data":[`+bucket+`],"total":1}`)
		case "/v1/accounts/acme/key-buckets/partners":
			_, _ = io.WriteString(w, bucket)
		default:
			_, _ = io.WriteString(w, `{"data":[],"total":0}`)
		}
	})
}

// changing are the requests that were made and that read nothing.
func (l *line) changing() []string {
	return slices.DeleteFunc(slices.Clone(l.asked), func(asked string) bool { return strings.HasPrefix(asked, http.MethodGet) })
}

// TestComparisonsTellAPipelineByTheirCode: 8 is for what nobody has done yet, and nothing else ends with it.
func TestComparisonsTellAPipelineByTheirCode(t *testing.T) {
	t.Parallel()
	const (
		same    = "keyBuckets: [{name: partners}]"
		more    = "keyBuckets: [{name: partners}, {name: customers}]"
		changed = "keyBuckets: [{name: partners, description: d}]"
		fewer   = "complete: [keyBuckets]"
	)
	for _, tt := range []struct {
		files, command string
		code           exit.Code
		stdout         string
	}{
		{same, "drift", exit.OK, "no changes\n"},
		{more, "drift", exit.Pending, "+ key bucket customers\n1 to create, 0 to change, 0 to delete\n"},
		{changed, "drift", exit.Pending, "~ key bucket partners\n    description: none → \"d\"\n0 to create, 1 to change, 0 to delete\n"},
		{fewer, "drift", exit.Pending, "- key bucket partners, with 0 consumers\n0 to create, 0 to change, 1 to delete\n"},
		{same, "plan --exit-code", exit.OK, "no changes\n"},
		{more, "plan --exit-code", exit.Pending, "+ key bucket customers\n1 to create, 0 to change, 0 to delete\n"},
		{more, "plan", exit.OK, "+ key bucket customers\n1 to create, 0 to change, 0 to delete\n"},
		{fewer, "plan --exit-code", exit.OK, "no changes\n1 more that complete lists do not name stay; --prune deletes them\n"},
		{"keyBuckets: [{nam: partners}]", "drift", exit.Invalid, ""},
	} {
		l := oneBucket(t)
		file := filepath.Join(t.TempDir(), "account.yaml")
		write(t, file, tt.files)
		words := append(strings.Fields(tt.command), file)
		if got := l.run("", words...); got.code != tt.code || got.out != tt.stdout || (got.err == "") != (tt.code == exit.OK) {
			t.Errorf("%s of %s: %+v", tt.command, tt.files, got)
		}
		got := l.run("", append(words, "--output", "json")...)
		if got.code != tt.code || tt.stdout != "" && !json.Valid([]byte(got.out)) || tt.stdout == "" && got.out != "" || tt.code != exit.OK && !json.Valid([]byte(got.err)) {
			t.Errorf("%s of %s in JSON: %+v", tt.command, tt.files, got)
		}
		if all := l.changing(); len(all) > 0 {
			t.Errorf("%s of %s asks for %q", tt.command, tt.files, all)
		}
	}
}

// TestApplyAsksBeforeItChangesWhatNobodyHasSeen, and where nobody is there it changes nothing: files always, a plan where it deletes something.
func TestApplyAsksBeforeItChangesWhatNobodyHasSeen(t *testing.T) {
	t.Parallel()
	const more, fewer = "keyBuckets: [{name: customers}]", "complete: [keyBuckets]"
	for _, tt := range []struct {
		files         string
		planned, asks bool
	}{{more, false, true}, {fewer, false, true}, {more, true, false}, {fewer, true, true}} {
		l := oneBucket(t)
		file := filepath.Join(t.TempDir(), "account.yaml")
		write(t, file, tt.files)
		words := []string{"apply", file, "--prune"}
		if tt.planned {
			plan := filepath.Join(t.TempDir(), "account.plan")
			if got := l.run("", "plan", file, "--prune", "--out", plan); got.code != exit.OK {
				t.Fatalf("%+v", got)
			}
			words = []string{"apply", plan}
		}
		got := l.run("acme\n", words...)
		if tt.asks && (got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, "--yes") || len(l.changing()) > 0) || !tt.asks && (got.code != exit.OK || len(l.changing()) != 1) {
			t.Errorf("%v of %s: %+v, and asks for %q", words, tt.files, got, l.changing())
		}
		if got := l.run("", append(words, "--yes")...); got.code != exit.OK || len(l.changing()) != 1 {
			t.Errorf("%v --yes of %s: %+v, and asks for %q", words, tt.files, got, l.changing())
		}
	}
}

// TestPlanActsOnNoTerminal, whatever somebody has written into files, or the installation has.
func TestPlanActsOnNoTerminal(t *testing.T) {
	t.Parallel()
	const odd = "\u202e\u009b2J"
	l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		const bucket, extra = `{"name":"partners","id":"1","description":"was` + odd + `"}`, `{"name":"extra` + odd + `","id":"2"}`
		w.Header().Set("ETag", `"1"`)
		text := map[string]string{"partners": bucket, "extra" + odd: extra}[path.Base(r.URL.Path)]
		if text == "" {
			text = `{"data":[` + bucket + `,` + extra + `],"total":2}`
		}
		_, _ = io.WriteString(w, text)
	})
	file := filepath.Join(t.TempDir(), "account.yaml")
	write(t, file, `{complete: [keyBuckets], keyBuckets: [{name: partners, description: "is\u202e\u009b2J\u2066"}]}`)
	for _, format := range []string{"table", "json", "yaml"} {
		got := l.run("", "plan", file, "--prune", "--output", format)
		for _, r := range got.out + got.err {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("in %s it writes %U: %q", format, r, got.out+got.err)
				break
			}
		}
		if got.code != exit.OK || format == "table" && (!strings.Contains(got.out, `was\u202e`) || !strings.Contains(got.out, `is\u202e`) || !strings.Contains(got.out, `extra\u202e`)) {
			t.Errorf("%+v", got)
		}
	}
}

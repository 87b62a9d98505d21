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

// newBucketFixture returns a fixture whose API has the key bucket partners, without consumers. Requests change nothing.
func newBucketFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
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

// changeRequests returns the requests that are not reads.
func (fx *fixture) changeRequests() []string {
	return slices.DeleteFunc(slices.Clone(fx.requests), func(request string) bool {
		return strings.HasPrefix(request, http.MethodGet)
	})
}

// TestPendingChangesExitWith8 checks that drift and plan --exit-code exit with 8 if and only if valid files have
// pending changes. Without --exit-code, plan must exit with 0.
func TestPendingChangesExitWith8(t *testing.T) {
	t.Parallel()
	const (
		unchanged = "keyBuckets: [{name: partners}]"
		added     = "keyBuckets: [{name: partners}, {name: customers}]"
		changed   = "keyBuckets: [{name: partners, description: d}]"
		removed   = "complete: [keyBuckets]"
	)
	for _, tt := range []struct {
		files, command string
		code           exit.Code
		stdout         string
	}{
		{unchanged, "drift", exit.OK, "no changes\n"},
		{added, "drift", exit.Pending, "+ key bucket customers\n1 to create, 0 to change, 0 to delete\n"},
		{changed, "drift", exit.Pending, "~ key bucket partners\n    description: none → \"d\"\n0 to create, 1 to " +
			"change, 0 to delete\n"},
		{removed, "drift", exit.Pending, "- key bucket partners, with 0 consumers\n0 to create, 0 to change, 1 to delete\n"},
		{unchanged, "plan --exit-code", exit.OK, "no changes\n"},
		{added, "plan --exit-code", exit.Pending, "+ key bucket customers\n1 to create, 0 to change, 0 to delete\n"},
		{added, "plan", exit.OK, "+ key bucket customers\n1 to create, 0 to change, 0 to delete\n"},
		{
			removed, "plan --exit-code", exit.OK,
			"no changes\n1 more that complete lists do not name stay; --prune deletes them\n",
		},
		{"keyBuckets: [{nam: partners}]", "drift", exit.Invalid, ""},
	} {
		fx := newBucketFixture(t)
		file := filepath.Join(t.TempDir(), "account.yaml")
		writeFile(t, file, tt.files)
		args := append(strings.Fields(tt.command), file)
		if got := fx.run("", args...); got.code != tt.code || got.out != tt.stdout ||
			(got.err == "") != (tt.code == exit.OK) {
			t.Errorf("%s of %s = %+v, want code %d, the output %q, and a text on stderr unless the code is %d",
				tt.command, tt.files, got, tt.code, tt.stdout, exit.OK)
		}
		got := fx.run("", append(args, "--output", "json")...)
		if got.code != tt.code || tt.stdout != "" && !json.Valid([]byte(got.out)) || tt.stdout == "" && got.out != "" ||
			tt.code != exit.OK && !json.Valid([]byte(got.err)) {
			t.Errorf("%s --output json of %s = %+v, want code %d and JSON", tt.command, tt.files, got, tt.code)
		}
		if requests := fx.changeRequests(); len(requests) > 0 {
			t.Errorf("%s of %s sends the changes %q, want none", tt.command, tt.files, requests)
		}
	}
}

// TestApplyRequiresConfirmation checks that apply changes nothing without a terminal, unless --yes is set. For files it
// always requires a confirmation, and for a plan file only if the plan deletes something.
func TestApplyRequiresConfirmation(t *testing.T) {
	t.Parallel()
	const added, removed = "keyBuckets: [{name: customers}]", "complete: [keyBuckets]"
	for _, tt := range []struct {
		files              string
		fromPlan, confirms bool
	}{{added, false, true}, {removed, false, true}, {added, true, false}, {removed, true, true}} {
		fx := newBucketFixture(t)
		file := filepath.Join(t.TempDir(), "account.yaml")
		writeFile(t, file, tt.files)
		args := []string{"apply", file, "--prune"}
		if tt.fromPlan {
			plan := filepath.Join(t.TempDir(), "account.plan")
			if got := fx.run("", "plan", file, "--prune", "--out", plan); got.code != exit.OK {
				t.Fatalf("plan --prune --out of %s = %+v, want code 0", tt.files, got)
			}
			args = []string{"apply", plan}
		}
		got := fx.run("acme\n", args...)
		changes := fx.changeRequests()
		if tt.confirms && (got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, "--yes") ||
			len(changes) > 0) {
			t.Errorf("%v of %s = %+v with the changes %q, want code %d, a hint at --yes, and no change",
				args, tt.files, got, changes, exit.Usage)
		}
		if !tt.confirms && (got.code != exit.OK || len(changes) != 1) {
			t.Errorf("%v of %s = %+v with the changes %q, want code 0 and one change", args, tt.files, got, changes)
		}
		if got := fx.run("", append(args, "--yes")...); got.code != exit.OK || len(fx.changeRequests()) != 1 {
			t.Errorf("%v --yes of %s = %+v with the changes %q, want code 0 and one change",
				args, tt.files, got, fx.changeRequests())
		}
	}
}

// TestPlanEscapesControlCharacters checks that texts in files and in the installation cannot control the terminal.
func TestPlanEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	const controls = "\u202e\u009b2J"
	fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		const bucket, extra = `{"name":"partners","id":"1","description":"was` + controls + `"}`,
			`{"name":"extra` + controls + `","id":"2"}`
		w.Header().Set("ETag", `"1"`)
		text := map[string]string{"partners": bucket, "extra" + controls: extra}[path.Base(r.URL.Path)]
		if text == "" {
			text = `{"data":[` + bucket + `,` + extra + `],"total":2}`
		}
		_, _ = io.WriteString(w, text)
	})
	file := filepath.Join(t.TempDir(), "account.yaml")
	writeFile(t, file, `{complete: [keyBuckets], keyBuckets: [{name: partners, description: "is\u202e\u009b2J\u2066"}]}`)
	for _, format := range []string{"table", "json", "yaml"} {
		got := fx.run("", "plan", file, "--prune", "--output", format)
		for _, r := range got.out + got.err {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("plan --output %s writes %U in %q, want printable characters", format, r, got.out+got.err)
				break
			}
		}
		if got.code != exit.OK || format == "table" && (!strings.Contains(got.out, `was\u202e`) ||
			!strings.Contains(got.out, `is\u202e`) || !strings.Contains(got.out, `extra\u202e`)) {
			t.Errorf("plan --output %s = %+v, want code 0, and in a table escaped characters", format, got)
		}
	}
}

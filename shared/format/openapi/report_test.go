package openapi

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// TestNamesOfClientsAreBounded checks that the names that clients choose are cut in reports, and contain no credentials.
func TestNamesOfClientsAreBounded(t *testing.T) {
	t.Parallel()
	const object = `{"type":"object","additionalProperties":{"type":"integer"}}`
	q := compile(t, "", `{"parameters":[
		{"in":"query","name":"deep","style":"deepObject","explode":true,"schema":`+object+`},
		{"in":"query","name":"json","contentType":"application/json","schema":`+object+`}],
		"body":{"content":[{"type":"application/json","schema":`+object+`},
		{"type":"application/x-www-form-urlencoded","schema":`+object+`,"encoding":{"deep":{"style":"deepObject"}}},
		{"type":"multipart/form-data","schema":`+object+`}]}}`)
	key := credential.New(credential.ConsumerKey, ids.NewSource(rand.Reader, time.Now))
	name := key + strings.Repeat("n", 300)
	checks := map[string]func(r *Report){}
	for _, query := range []string{
		"deep[" + name + "]=x", "deep[" + name + "]=1&deep[" + name + "]=2", "deep[" + name + "]]=1",
		"json={\"" + name + "\":\"x\"}",
		name + "=1", "deep[" + name + "=1",
	} {
		checks[query] = func(r *Report) {
			q.CheckQuery(r, query)
			r.RejectUnknownQuery()
		}
	}
	for _, body := range [][2]string{
		{"application/json", `{"` + name + `":"x"}`},
		{"application/json", `{"` + name + `":1,"` + name + `":1}`},
		{"application/x-www-form-urlencoded", name + "=x"},
		{"application/x-www-form-urlencoded", name + "=1&" + name + "=2"},
		{"application/x-www-form-urlencoded", "deep[" + name + "]]=1"},
		{"multipart/form-data; boundary=B", multipartBody([2]string{`name="` + name + `"`, "x"})},
		{"multipart/form-data; boundary=B", multipartBody(
			[2]string{`name="` + name + `"`, "1"}, [2]string{`name="` + name + `"`, "1"})},
		{"multipart/form-data; boundary=B", multipartBody([2]string{`name="` + name + `"` + "\r\nContent-Type: x", "1"})},
	} {
		checks[body[0]+" "+body[1]] = func(r *Report) { q.CheckBody(r, body[0], []byte(body[1])) }
	}
	for message, check := range checks {
		var r Report
		check(&r)
		if r.IsValid() {
			t.Errorf("check of %.60q has no violations, want one", message)
		}
		checkBounds(t, &r)
		if strings.Contains(r.text(), key) {
			t.Errorf("check of %.60q = %.200q, want no credential", message, r.text())
		}
	}
}

// TestReportSaysThatThereIsMore checks that a report has MaxViolations, and says that there are more: also if each
// parameter has a violation of its own.
func TestReportSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]bool{MaxViolations: false, MaxViolations + 1: true} {
		var parameters []string
		header := http.Header{}
		for i := range count {
			parameters = append(parameters, fmt.Sprintf(`{"in":"header","name":"X-%d","style":"simple","schema":`+
				`{"type":"integer"}}`, i))
			header.Set(fmt.Sprintf("X-%d", i), "x")
		}
		q := compile(t, "", `{"parameters":[`+strings.Join(parameters, ",")+`]}`)
		var r Report
		q.CheckHeaders(&r, header)
		if len(r.Violations) != MaxViolations {
			t.Errorf("CheckHeaders(%d wrong fields) has %d violations, want %d", count, len(r.Violations), MaxViolations)
		}
		if r.More != want {
			t.Errorf("CheckHeaders(%d wrong fields).More = %t, want %t", count, r.More, want)
		}
	}
}

// TestShapesOfNamesCountAsWork checks that computing the types of a property counts as work if a schema has patterns for
// names: then each name has types of its own.
func TestShapesOfNamesCountAsWork(t *testing.T) {
	t.Parallel()
	const names = 1000
	q := compile(t, "", `{"parameters":[{"in":"query","name":"d","style":"deepObject","explode":true,
		"schema":{"type":"object","patternProperties":{"^x":{"type":"integer"}}}}]}`)
	var query strings.Builder
	for i := range names {
		fmt.Fprintf(&query, "d[y%d]=1&", i)
	}
	var r Report
	q.CheckQuery(&r, query.String())
	unread, err := schema.Compile([]byte(`{"type":"object","patternProperties":{"^x":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	for i := range names {
		object[fmt.Sprintf("y%d", i)] = "1"
	}
	work := schema.NewWork()
	if _, err := unread.Matches(object, work); err != nil {
		t.Fatal(err)
	}
	validation := schema.MaxWork - work.Remaining()
	if shapes := schema.MaxWork - r.remainingWork().Remaining() - validation; shapes < 10*names {
		t.Errorf("CheckQuery(%d names) takes %d units of work more than the validation, want at least %d", names, shapes,
			10*names)
	}
}

// TestTooMuchWorkIsAViolation checks that a value that takes too long to be checked is refused, and that all checks with
// one report share the work.
func TestTooMuchWorkIsAViolation(t *testing.T) {
	t.Parallel()
	q := compile(t, tree, everything)
	var r Report
	q.CheckBody(&r, "text/plain", []byte(hostileTexts()["a long text for a pattern"]))
	if got, want := r.text(), "body : "+tooMuchWork; got != want {
		t.Errorf("CheckBody(a long text for a pattern) = %q, want %q", got, want)
	}
	body := []byte(`{"value":5}`)
	r = Report{}
	q.CheckBody(&r, "application/json", body)
	first := schema.MaxWork - r.remainingWork().Remaining()
	q.CheckBody(&r, "application/json", body)
	if both := schema.MaxWork - r.remainingWork().Remaining(); first <= 0 || both != 2*first {
		t.Errorf("two checks with one report take %d units of work, want twice the %d of the first", both, first)
	}
}

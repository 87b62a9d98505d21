package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestProblemsAndRecordsAreBounded checks that data of the client is shortened in
// problems, records and the log, and that a refusal is recorded for a request of any size.
func TestProblemsAndRecordsAreBounded(t *testing.T) {
	long := strings.Repeat("&", 900_000) // each character has six bytes in JSON
	var many fault.Fields
	for range 5000 {
		many.Add("description", "is wrong")
	}
	for _, c := range []struct {
		name, target, body string
		fail               error
		want               string
	}{
		{"a long path", thing + strings.Repeat("&", 8<<10-len(thing)), "{", nil, ""},
		{"a long name in the query", thing + "x?" + strings.Repeat("%3C", 300_000) + "=%01", "{}", nil, "query."},
		{"a long name of a field", thing + "x", `{"x":{"` + long + `":"\u0000"}}`, nil, "body.x.&&"},
		{"many faults", thing + "x", "{}", many.Err(), "and 4900 more"},
		{
			"many values", thing + "x", `{"x":[` + strings.Repeat("1,", 20_000) + "1]}", nil,
			"body: has more than 20000 values",
		},
		{"a long user agent", thing + "x", "{", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.fail = c.fail
			r, body := f.do(t, "PATCH", c.target, goodKey, c.body, "User-Agent", "a"+strings.Repeat("é", 500_000))
			if r.StatusCode != http.StatusBadRequest || len(body) > 64<<10 {
				t.Fatalf("PATCH %.100s = %d with %d bytes, want 400 with at most %d: %.300s",
					c.target, r.StatusCode, len(body), 64<<10, body)
			}
			checkProblem(t, r, body)
			var p api.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil || !strings.Contains(p.Detail, c.want) ||
				len(p.Errors) > 100 {
				t.Errorf("problem with the detail %.300s and %d errors, %v, want %q in the detail and at most 100 errors",
					p.Detail, len(p.Errors), err, c.want)
			}
			if f.log.Len() > 64<<10 {
				t.Errorf("log = %d bytes, want at most %d", f.log.Len(), 64<<10)
			}
			entries, err := audit.ListPending(t.Context(), f.table, "a-1")
			if err != nil || len(entries) != 1 {
				t.Fatalf("audit records = %d, %v, want 1 and no error", len(entries), err)
			}
			for _, e := range entries {
				if agent := *e.Context.UserAgent; len(agent) > 256 || !utf8.ValidString(agent) {
					t.Errorf("recorded user agent = %q of %d bytes, want at most 256 bytes of UTF-8", agent, len(agent))
				}
			}
		})
	}
}

// TestLongPathIsRefusedFirst checks that a long path is refused before
// the client is authenticated, even if the platform accepts it.
func TestLongPathIsRefusedFirst(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		bytes, want int
	}{
		{8 << 10, http.StatusNotFound},
		{8<<10 + 1, http.StatusRequestURITooLong},
		{10_240, http.StatusRequestURITooLong},
		{1 << 20, http.StatusRequestURITooLong},
	} {
		r, body := f.do(t, "PATCH", "/"+strings.Repeat("x", c.bytes-1), "", "{")
		if r.StatusCode != c.want {
			t.Errorf("PATCH of a path of %d bytes: status = %d, want %d", c.bytes, r.StatusCode, c.want)
		}
		checkProblem(t, r, body)
	}
}

// TestLogLinesAreBounded checks that a client cannot fill the
// log with long values, not even with requests that are refused.
func TestLogLinesAreBounded(t *testing.T) {
	const maxLineBytes = 2 << 10
	long := strings.Repeat("x", 8000)
	for name, c := range map[string]struct{ method, target string }{
		"a path":          {"PATCH", thing + long},
		"an unknown path": {"GET", "/" + long},
		"a query":         {"PATCH", thing + "x?" + long + "=" + long},
		"a method":        {long, thing + "x"},
	} {
		f := newFixture(t)
		f.do(t, c.method, c.target, goodKey, "{", "User-Agent", long, "Referer", long, long, long, "Traceparent", long,
			"X-Request-Id", long)
		lines := strings.SplitAfter(f.log.String(), "\n")
		if len(lines) < 2 {
			t.Errorf("%s: the request has no line in the log, want one", name)
		}
		for _, line := range lines {
			if len(line) > maxLineBytes {
				t.Errorf("%s: a log line has %d bytes, want at most %d: %.300s", name, len(line), maxLineBytes, line)
			}
		}
	}
}

// TestUserAgentIsRedactedInRecords checks that a key is redacted in the
// User-Agent, even a part of a key: a script could send its key there.
func TestUserAgentIsRedactedInRecords(t *testing.T) {
	key := "gwa_0123456789abcdefghijklmnopqrstuv_01234567"
	for agent, want := range map[string]string{
		"robot " + key:                       "robot withheld",
		"robot/" + key + " (x)":              "robot/withheld (x)",
		strings.Repeat("a", 219) + " " + key: strings.Repeat("a", 219) + " withheld",
		"gws_ 1.0":                           "gws_ 1.0",
	} {
		f := newFixture(t)
		f.do(t, "PATCH", thing+"x", goodKey, "{}", "User-Agent", agent)
		entries, err := audit.ListPending(t.Context(), f.table, "a-1")
		if err != nil || len(entries) != 1 {
			t.Fatalf("audit records = %d, %v, want 1 and no error", len(entries), err)
		}
		for _, e := range entries {
			if *e.Context.UserAgent != want {
				t.Errorf("recorded user agent of %s = %s, want %s", agent, *e.Context.UserAgent, want)
			}
		}
	}
}

// TestErrorResponseIsDeterministic checks that a query with several errors always gets the same error.
func TestErrorResponseIsDeterministic(t *testing.T) {
	bodies := map[string]bool{}
	for range 50 {
		_, body := newFixture(t).do(t, "GET", thing+"x?a=%01&b=%01&c=%01&d=%01", goodKey, "")
		bodies[body] = true
	}
	if len(bodies) != 1 {
		t.Errorf("different responses to one request = %d, want 1: %v", len(bodies), bodies)
	}
}

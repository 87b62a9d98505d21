package limits_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
)

// TestLimitsAreComplete checks that each limit has all fields that documents and problems need, and that names are
// unique.
func TestLimitsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range limits.All() {
		if seen[l.Name] {
			t.Errorf("All() has %s twice, want it once", l.Name)
		}
		seen[l.Name] = true
		if l.Default < 1 || l.Max < l.Default {
			t.Errorf("%s: default %d, max %d, want 1 <= default <= max", l.Name, l.Default, l.Max)
		}
		if l.Plural == "" || l.Owner == "" {
			t.Errorf("%s: plural %q, owner %q, want both", l.Name, l.Plural, l.Owner)
		}
		if (l.Kind == limits.Total) != (l.Remedy != "") {
			t.Errorf("%s: kind %v, remedy %q, want a remedy exactly if the kind is Total", l.Name, l.Kind, l.Remedy)
		}
	}
	// PerAccount has no limits of the kinds ConcurrentPerProcess and Slots. There are three of these.
	if len(limits.PerAccount()) != len(limits.All())-3 {
		t.Errorf("PerAccount() has %d limits, want %d", len(limits.PerAccount()), len(limits.All())-3)
	}
}

// TestRefusalNamesLimit checks that the refusal of each limit names the limit, its use, its value and who can raise it.
// Only the refusals of limits that are not totals have a Retry-After, in whole seconds.
func TestRefusalNamesLimit(t *testing.T) {
	for _, l := range limits.All() {
		f := l.Refusal(77, 78, 1500*time.Millisecond)
		for _, text := range []string{l.Name, "77 " + l.Plural, "is 78.", l.Owner} {
			if !strings.Contains(f.Public, text) {
				t.Errorf("Refusal() of %s = %q, want %q in it", l.Name, f.Public, text)
			}
		}
		want, after := fault.Throttled, 2*time.Second
		if l.Kind == limits.Total {
			want, after = fault.Forbidden, 0
		}
		if f.Kind != want || f.RetryAfter != after {
			t.Errorf("Refusal() of %s = %v, RetryAfter %s, want %v, RetryAfter %s", l.Name, f.Kind, f.RetryAfter, want, after)
		}
	}
}

func TestParseRoundTrip(t *testing.T) {
	v, err := limits.Parse(" requests=50  projects=3 ")
	if err != nil || v.Get(limits.Projects) != 3 || v.Get(limits.Requests) != 50 ||
		v.Get(limits.Consumers) != limits.Consumers.Default {
		t.Fatalf("Parse() = %v, %v, want projects 3, requests 50, and the default for consumers", v, err)
	}
	if reparsed, err := limits.Parse(v.String()); err != nil || reparsed.String() != "projects=3 requests=50" {
		t.Errorf("Parse(%s) = %v, %v, want \"projects=3 requests=50\"", v, reparsed, err)
	}
	if v, err := limits.Parse(""); err != nil || v.String() != "" {
		t.Errorf("Parse(\"\") = %v, %v, want no limits", v, err)
	}
}

// TestParseErrors checks the errors of Parse, which must not repeat a misspelled word of the setting, because the word
// may be a secret. It also checks that Check refuses values below 1 and above the maximum.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"hunter2=5":                     "word 1 names no limit",
		"projects=1 PROJECTS=2":         "word 2 names no limit",
		"projects":                      "projects can be 1 to 10000, such as projects=1000",
		"projects=0":                    "projects can be 1",
		"projects=-1":                   "projects can be 1",
		"projects=1.5":                  "projects can be 1",
		"projects=1e3":                  "projects can be 1",
		"projects=10001":                "projects can be 1",
		"projects=1 projects=1":         "projects is there twice",
		"projects=99999999999999999999": "projects can be 1",
	} {
		_, err := limits.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse(%q) = %v, want an error of one line with %q, without \"hunter2\"", text, err, want)
		}
	}
	if _, err := limits.Parse("projects=0"); err == nil || !strings.HasSuffix(err.Error(), "such as projects=1000") {
		t.Errorf("Parse(projects=0) = %v, want an error with the default as the example", err)
	}
	for _, l := range limits.All() {
		for _, value := range []int64{0, -1, l.Max + 1} {
			if !fault.Is(l.Check(value), fault.Invalid) {
				t.Errorf("Check(%d) of %s = %v, want the fault Invalid", value, l.Name, l.Check(value))
			}
		}
	}
}

package limits_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
)

// TestEachLimitIsDeclaredWhole: what docs, problems and settings are made of is there, and names tell limits apart.
func TestEachLimitIsDeclaredWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range limits.All() {
		if seen[l.Name] {
			t.Errorf("%s is there twice", l.Name)
		}
		seen[l.Name] = true
		if l.Default < 1 || l.Most < l.Default || l.Things == "" || l.Of == "" || (l.Kind == limits.Kept) != (l.Cure != "") {
			t.Errorf("%+v lacks something", l)
		}
	}
	if len(limits.Own()) != len(limits.All())-3 {
		t.Errorf("%d limits can be an account's own", len(limits.Own()))
	}
}

// TestRefusalSaysWhichLimitAndWhatItIs, in every kind.
func TestRefusalSaysWhichLimitAndWhatItIs(t *testing.T) {
	for _, l := range limits.All() {
		f := l.Refusal(77, 78, 1500*time.Millisecond)
		for _, text := range []string{l.Name, "77 " + l.Things, "is 78.", l.Of} {
			if !strings.Contains(f.Public, text) {
				t.Errorf("%s: %q lacks %q", l.Name, f.Public, text)
			}
		}
		want, after := fault.Throttled, 2*time.Second
		if l.Kind == limits.Kept {
			want, after = fault.Forbidden, 0
		}
		if f.Kind != want || f.RetryAfter != after {
			t.Errorf("%s is refused by %v after %s", l.Name, f.Kind, f.RetryAfter)
		}
	}
}

func TestSettingIsReadAndWritten(t *testing.T) {
	v, err := limits.Parse(" requests=50  projects=3 ")
	if err != nil || v.Of(limits.Projects) != 3 || v.Of(limits.Requests) != 50 || v.Of(limits.Consumers) != limits.Consumers.Default {
		t.Fatalf("%v, %v", v, err)
	}
	if again, err := limits.Parse(v.String()); err != nil || again.String() != "projects=3 requests=50" {
		t.Errorf("%v, %v", again, err)
	}
	if v, err := limits.Parse(""); err != nil || v.String() != "" {
		t.Errorf("nothing is %v, %v", v, err)
	}
}

// TestBadSettingIsOneLineThatSaysWhatToWrite and repeats nothing that may be a secret.
func TestBadSettingIsOneLineThatSaysWhatToWrite(t *testing.T) {
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
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := limits.Parse("projects=0"); err == nil || !strings.HasSuffix(err.Error(), "such as projects=1000") {
		t.Errorf("what is suggested is not the default: %v", err)
	}
	for _, l := range limits.All() {
		for _, value := range []int64{0, -1, l.Most + 1} {
			if !fault.Is(l.Check(value), fault.Invalid) {
				t.Errorf("%s may be %s", l.Name, strconv.FormatInt(value, 10))
			}
		}
	}
}

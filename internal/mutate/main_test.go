package main

import (
	"fmt"
	"strings"
	"testing"
)

// report is what gremlins writes about so many mutants of each kind.
func report(killed, lived, timedOut, uncovered int) []byte {
	var all []string
	for status, n := range map[string]int{"KILLED": killed, "LIVED": lived, "TIMED OUT": timedOut, "NOT COVERED": uncovered, "NOT VIABLE": 1} {
		for range n {
			all = append(all, fmt.Sprintf(`{"type":"CONDITIONALS_NEGATION","status":%q,"line":1,"column":2}`, status))
		}
	}
	return []byte(`{"go_module":"m","files":[{"file_name":"a.go","mutations":[` + strings.Join(all, ",") + `]},{"file_name":"b.go"}]}`)
}

func TestPackagesBelowTheBarFail(t *testing.T) {
	for _, test := range []struct {
		name                               string
		killed, lived, timedOut, uncovered int
		ok                                 bool
	}{
		{"all killed", 100, 0, 0, 0, true},
		{"at the bar", 95, 5, 0, 3, true},
		{"one more lives", 94, 6, 0, 0, false},
		{"too many not covered", 96, 1, 0, 4, false},
		{"time-outs count as covered", 95, 5, 100, 6, true},
		{"nothing", 0, 0, 0, 0, false},
		{"nothing covered", 0, 0, 3, 0, false},
	} {
		s, err := read(report(test.killed, test.lived, test.timedOut, test.uncovered), nil)
		if err != nil || s != (score{test.killed, test.lived, test.timedOut, test.uncovered}) {
			t.Fatalf("%s: read as %+v, %v", test.name, s, err)
		}
		if err := s.check("./p", bar{95, 3}); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, err := read([]byte(`{"files":[{"mutations":[{"status":"ESCAPED"}]}]}`), nil); err == nil {
		t.Error("an outcome that is not known is none")
	}
	if _, err := read([]byte(`no report`), nil); err == nil {
		t.Error("what is no report is read")
	}
}

func TestALineShowsBothScores(t *testing.T) {
	got := score{killed: 41, lived: 4, uncovered: 2}.line("./shared/seal")
	if want := "| `shared/seal` | 41 | 4 | 0 | 2 | 91.1 % | 4.3 % |"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestPackagesForTestsAreLeftOut(t *testing.T) {
	text := `{"files":[`
	for _, name := range []string{"a.go", "contest.go", "attest/latest.go", "b/ctest/c.go", "test/d.go", "tested/e.go", "atest/b/f.go"} {
		text += `{"file_name":"` + name + `","mutations":[{"status":"KILLED"},{"status":"NOT COVERED"},{"status":"LIVED"}]},`
	}
	s, err := read([]byte(strings.TrimSuffix(text, ",")+"]}"), nil)
	if want := (score{killed: 4, lived: 4, uncovered: 4}); err != nil || s != want {
		t.Errorf("read as %+v, %v, not %+v", s, err, want)
	}
}

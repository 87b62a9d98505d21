package main

import (
	"fmt"
	"strings"
	"testing"
)

// report returns a report of gremlins with a number of changes of each status.
func report(killed, lived, timedOut, uncovered int) []byte {
	var all []string
	for status, n := range map[string]int{
		"KILLED": killed, "LIVED": lived, "TIMED OUT": timedOut,
		"NOT COVERED": uncovered, "NOT VIABLE": 1,
	} {
		for range n {
			all = append(all, fmt.Sprintf(`{"type":"CONDITIONALS_NEGATION","status":%q,"line":1,"column":2}`, status))
		}
	}
	return []byte(`{"go_module":"m","files":[{"file_name":"a.go","mutations":[` +
		strings.Join(all, ",") + `]},{"file_name":"b.go"}]}`)
}

func TestPackagesBelowTheThresholdFail(t *testing.T) {
	for _, test := range []struct {
		name                               string
		killed, lived, timedOut, uncovered int
		ok                                 bool
	}{
		{"all killed", 100, 0, 0, 0, true},
		{"95 % killed", 95, 5, 0, 3, true},
		{"94 % killed", 94, 6, 0, 0, false},
		{"too many not covered", 96, 1, 0, 4, false},
		{"time-outs count as covered", 95, 5, 100, 6, true},
		{"no changes", 0, 0, 0, 0, false},
		{"nothing covered", 0, 0, 3, 0, false},
	} {
		s, err := parseReport(report(test.killed, test.lived, test.timedOut, test.uncovered), nil)
		if err != nil || s != (score{test.killed, test.lived, test.timedOut, test.uncovered}) {
			t.Fatalf("%s: parseReport() = %+v, %v, want %+v", test.name, s, err,
				score{test.killed, test.lived, test.timedOut, test.uncovered})
		}
		if err := s.check("./p", threshold{95, 3}); (err == nil) != test.ok {
			t.Errorf("%s: check() = %v, want success = %v", test.name, err, test.ok)
		}
	}
	if _, err := parseReport([]byte(`{"files":[{"mutations":[{"status":"ESCAPED"}]}]}`), nil); err == nil {
		t.Error("parseReport(unknown status) = no error, want an error")
	}
	if _, err := parseReport([]byte(`no report`), nil); err == nil {
		t.Error("parseReport(no report) = no error, want an error")
	}
}

func TestLineShowsBothScores(t *testing.T) {
	got := score{killed: 41, lived: 4, uncovered: 2}.line("./shared/core/seal")
	if want := "| `shared/core/seal` | 41 | 4 | 0 | 2 | 91.1 % | 4.3 % |"; got != want {
		t.Errorf("line() = %s, want %s", got, want)
	}
}

func TestTestPackagesAreIgnored(t *testing.T) {
	text := `{"files":[`
	for _, name := range []string{
		"a.go", "contest.go", "attest/latest.go", "b/ctest/c.go", "test/d.go", "tested/e.go",
		"atest/b/f.go",
	} {
		text += `{"file_name":"` + name + `","mutations":[{"status":"KILLED"},{"status":"NOT COVERED"},{"status":"LIVED"}]},`
	}
	s, err := parseReport([]byte(strings.TrimSuffix(text, ",")+"]}"), nil)
	if want := (score{killed: 4, lived: 4, uncovered: 4}); err != nil || s != want {
		t.Errorf("parseReport() = %+v, %v, want %+v", s, err, want)
	}
}

package graphql

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestDocumentedExamples compares the cost of each document in docs/graphql.md with the cost that the page states. It
// also checks that the page has a row for each error code.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "<!-- table: examples")
	table, _, closed := strings.Cut(table, "<!-- end of the table -->")
	rows := regexp.MustCompile("(?m)^\\| `(.+)` \\| (\\d+) \\| (\\d+) \\|$").FindAllStringSubmatch(table, -1)
	if !found || !closed || len(rows) < 15 || len(rows) != strings.Count(table, "\n| `") {
		t.Fatalf("table of examples: begin %v, end %v, %d rows read of %d, want the whole table with at least 15 rows",
			found, closed, len(rows), strings.Count(table, "\n| `"))
	}
	for _, row := range rows {
		d, refused := Analyze(row[1], nil)
		if refused != nil {
			t.Errorf("Analyze(%s) refused = %v, want no refusal", row[1], refused)
			continue
		}
		depth, complexity := 0, 0
		for _, o := range d.Operations {
			depth, complexity = max(depth, o.Depth), max(complexity, o.Complexity)
		}
		if strconv.Itoa(depth) != row[2] || strconv.Itoa(complexity) != row[3] {
			t.Errorf("Analyze(%s) = depth %d, complexity %d, want %s, %s", row[1], depth, complexity, row[2], row[3])
		}
	}
	for _, code := range []string{CodeParse, CodeValidation, CodeInput, CodePersisted, CodeDepth, CodeComplexity} {
		if !regexp.MustCompile("(?m)^\\| .*`" + code + "`.* \\|").MatchString(string(page)) {
			t.Errorf("docs/graphql.md has no row for the error code %s, want one", code)
		}
	}
}

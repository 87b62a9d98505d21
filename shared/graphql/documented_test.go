package graphql

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTheExamplesOfTheDocumentationHold counts each document of docs/graphql.md.
func TestTheExamplesOfTheDocumentationHold(t *testing.T) {
	page, err := os.ReadFile("../../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "<!-- table: examples")
	table, _, ends := strings.Cut(table, "<!-- end of the table -->")
	rows := regexp.MustCompile("(?m)^\\| `(.+)` \\| (\\d+) \\| (\\d+) \\|$").FindAllStringSubmatch(table, -1)
	if !found || !ends || len(rows) < 15 || len(rows) != strings.Count(table, "\n| `") {
		t.Fatalf("%d of the examples are read", len(rows))
	}
	for _, row := range rows {
		d, refused := Analyse(row[1], nil)
		if refused != nil {
			t.Errorf("%s: %v", row[1], refused)
			continue
		}
		depth, complexity := 0, 0
		for _, o := range d.Operations {
			depth, complexity = max(depth, o.Depth), max(complexity, o.Complexity)
		}
		if strconv.Itoa(depth) != row[2] || strconv.Itoa(complexity) != row[3] {
			t.Errorf("%s: depth %d and complexity %d", row[1], depth, complexity)
		}
	}
	for _, code := range []string{CodeParse, CodeValidation, CodeInput, CodePersisted, CodeDepth, CodeComplexity} {
		if !regexp.MustCompile("(?m)^\\| .*`" + code + "`.* \\|").MatchString(string(page)) {
			t.Errorf("the page lacks %s", code)
		}
	}
}

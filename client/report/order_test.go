package report_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestReportIsInOrderOfLines checks that errors, and after them warnings, are in the order of files and lines. A build
// sorts them by their pointers.
func TestReportIsInOrderOfLines(t *testing.T) {
	t.Parallel()
	// problems returns a problem for each name. A name is FILE:TEXT: the length of TEXT is the line, and the position of x
	// in TEXT is the column.
	problems := func(names ...string) (all []project.Problem) {
		for _, name := range names {
			file, rest, _ := strings.Cut(name, ":")
			all = append(all, project.Problem{
				File: file, Line: len(rest), Column: strings.IndexByte(rest, 'x') + 1, Message: name,
			})
		}
		return all
	}
	r := report.Report{
		Errors:   problems(":", "b:yyx", "b:x", "a:xyyyyyyyyyyy", "b:yxy", "a:", ":x"),
		Warnings: problems("b:", "a:x"),
	}
	before := slices.Clone(r.Errors)
	var text strings.Builder
	if err := r.Text(&text, false, false); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.TrimSuffix(line[strings.LastIndex(line, " ")+1:], "\n"))
	}
	want := []string{":", "a:", "a:xyyyyyyyyyyy", "b:x", "b:yxy", "b:yyx", ":x", "a:x", "b:"}
	if !slices.Equal(got, want) {
		t.Errorf("Text() has the problems %q, want %q", got, want)
	}
	if !slices.Equal(r.Errors, before) {
		t.Errorf("after Text(), Errors = %v, want %v", r.Errors, before)
	}
}

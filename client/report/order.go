package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/format/project"
)

// sorted returns problems in the order of files, lines and columns. A problem of a whole file is before those of its
// lines. Problems without a file that are before all problems with a file stay there: they are about the whole project.
// Other problems without a file become the last ones: they count the problems that a build has left out.
func sorted(problems []project.Problem) []project.Problem {
	out := slices.Clone(problems)
	hasFile := func(p project.Problem) bool { return p.File != "" }
	rest := out[max(0, slices.IndexFunc(out, hasFile)):]
	slices.SortStableFunc(rest, func(a, b project.Problem) int {
		if hasFile(a) != hasFile(b) {
			return cmp.Compare(b.File, a.File)
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out
}

// MergeUnset returns the problems in the order of files and lines, with one problem for each variable without a value:
// the first one, with the number of the other places that use the variable.
func MergeUnset(problems []project.Problem) []project.Problem {
	out := make([]project.Problem, 0, len(problems))
	first, others := map[string]int{}, map[string]int{}
	for _, p := range sorted(problems) {
		if _, known := first[p.Unset]; known && p.Unset != "" {
			others[p.Unset]++
			continue
		}
		first[p.Unset] = len(out)
		out = append(out, p)
	}
	for name, n := range others {
		places := "1 other place"
		if n > 1 {
			places = fmt.Sprintf("%d other places", n)
		}
		out[first[name]].Message += fmt.Sprintf(" %s is used at %s, too.", name, places)
	}
	return out
}

package report

import (
	"cmp"
	"slices"

	"github.com/gatewright/gatewright/shared/format/project"
)

// Sorted returns problems in the order of files, lines and columns. A problem of a whole file is before those of its
// lines. Problems without a file that are before all problems with a file stay there: they are about the whole project.
// Other problems without a file become the last ones: they count the problems that a build has left out.
func Sorted(problems []project.Problem) []project.Problem {
	out := append([]project.Problem{}, problems...)
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

package repolint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxColumns is the maximum length of a line of code in columns. A tab counts as one column. Lines with only a comment
// have no limit.
const maxColumns = 120

// taggedField matches a line that declares a field with a tag. A tag is one literal, which cannot be divided between
// lines.
var taggedField = regexp.MustCompile("^\t+\\w.*`\\w+:\".*\"`$")

// LongLines counts, for each Go file that no program has generated, the lines of code with more than maxColumns
// columns. It returns texts of the form "path count", sorted. Files without such lines are left out. Fields with a tag
// do not count.
func LongLines(t *Tree) (lines []string) {
	for name, found := range longLinesByFile(t) {
		lines = append(lines, fmt.Sprintf("%s %d", name, len(found)))
	}
	slices.Sort(lines)
	return lines
}

// MoreLongLines compares the files with previous, an earlier result of LongLines. It reports the long lines of each
// file that has more long lines now.
func MoreLongLines(t *Tree, previous []string) (found []Finding) {
	allowed := map[string]int{}
	for _, line := range previous {
		name, count, _ := strings.Cut(line, " ")
		allowed[name], _ = strconv.Atoi(count)
	}
	for name, current := range longLinesByFile(t) {
		if len(current) > allowed[name] {
			found = append(found, current...)
		}
	}
	return found
}

// longLinesByFile returns a finding for each line that LongLines counts, by the file's path.
func longLinesByFile(t *Tree) map[string][]Finding {
	all := map[string][]Finding{}
	t.eachFile(func(name string, _ *ast.File) {
		n := 0
		for line := range strings.Lines(t.Texts[name]) {
			n++
			line = strings.TrimSuffix(line, "\n")
			columns := len([]rune(line))
			isComment := strings.HasPrefix(strings.TrimLeft(line, "\t"), "//")
			if columns > maxColumns && !isComment && !taggedField.MatchString(line) {
				all[name] = append(all[name],
					Finding{name, n, fmt.Sprintf("the line has %d columns, more than %d: break it", columns, maxColumns)})
			}
		}
	})
	return all
}

package commandline

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/gatewright/gatewright/shared/lazy"
)

// leastColumns is the narrowest terminal that help is broken for: on one that is narrower a column of flags leaves no room.
const leastColumns = 60

// columnsOf is how wide a terminal is, 0 for what is none.
func columnsOf(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// described finds the beginning of a line of help that a description stands behind: a flag with what it takes, or a command, the longest of
// which has one space behind it alone.
var described = lazy.Regexp(`^( +(?:(?:-\w, )?--[\w-]+(?: \S+)? {3,}|[\w-]+ {2,}))\S|^( +[\w-]+ )[A-Z]`)

// wrapped is a help whose lines are at most so many columns wide, broken between words: paragraphs as a whole, descriptions below
// their beginning. What is indented otherwise, such as an example, is to be copied and stays as it is.
func wrapped(help string, columns int) string {
	if columns < leastColumns {
		return help
	}
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out, paragraph = append(out, broken(strings.Fields(strings.Join(paragraph, " ")), "", "", columns)...), nil
		}
	}
	for line := range strings.SplitSeq(help, "\n") {
		begin := ""
		if found := described().FindStringSubmatch(line); found != nil {
			begin = found[1] + found[2]
		}
		switch {
		case line != "" && line[0] != ' ' && !strings.HasSuffix(line, ":"):
			paragraph = append(paragraph, line)
			continue
		case begin != "" && len(line) > columns:
			end()
			out = append(out, broken(strings.Fields(line[len(begin):]), begin, strings.Repeat(" ", len(begin)), columns)...)
			continue
		}
		end()
		out = append(out, line)
	}
	end()
	return strings.Join(out, "\n")
}

// broken is words in lines, of which the first and all others begin so.
func broken(words []string, first, others string, columns int) (lines []string) {
	line, empty := first, true
	for _, word := range words {
		switch {
		case empty:
			line, empty = line+word, false
		case len(line)+1+len(word) > columns:
			lines, line = append(lines, line), others+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

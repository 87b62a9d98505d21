package commandline

import (
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/gatewright/gatewright/shared/lazy"
)

// leastColumns is the narrowest terminal that help is broken for.
const leastColumns = 20

// leastDescription is how much room a description has beside what it is of, in columns: where there is less it begins on the next line,
// belowIndent columns in.
const (
	leastDescription = 24
	belowIndent      = 8
)

// columnsOf is how wide a terminal is, 0 for what is none and has lines of any width.
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

// wrapped is a help whose lines are at most so many columns wide, broken between words: paragraphs that have a wider one as a whole, descriptions below
// their beginning. What is indented otherwise, such as an example, is to be copied and stays as it is.
func wrapped(help string, columns int) string {
	if columns < leastColumns {
		return help
	}
	var out, paragraph []string
	end := func() {
		for _, line := range paragraph {
			if uniseg.StringWidth(line) > columns {
				paragraph = broken(strings.Fields(strings.Join(paragraph, " ")), "", "", columns)
				break
			}
		}
		out, paragraph = append(out, paragraph...), nil
	}
	copied := false
	for line := range strings.SplitSeq(help, "\n") {
		if line != "" && line[0] != ' ' {
			if paragraph = append(paragraph, line); strings.HasSuffix(line, ":") {
				end() // what follows is a list
			}
			copied = line == "Usage:" || line == "Examples:"
			continue
		}
		end()
		found := described().FindStringSubmatch(line)
		if found == nil || copied || uniseg.StringWidth(line) <= columns {
			out = append(out, line)
			continue
		}
		begin := found[1] + found[2]
		words, beside := strings.Fields(line[len(begin):]), uniseg.StringWidth(begin)
		if columns-beside >= leastDescription {
			out = append(out, broken(words, begin, strings.Repeat(" ", beside), columns)...)
			continue
		}
		below := strings.Repeat(" ", belowIndent)
		out = append(append(out, strings.TrimRight(begin, " ")), broken(words, below, below, columns)...)
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
		case uniseg.StringWidth(line)+1+uniseg.StringWidth(word) > columns:
			lines, line = append(lines, line), others+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

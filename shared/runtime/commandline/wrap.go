package commandline

import (
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// minColumns is the width of the narrowest terminal for which help is wrapped.
const minColumns = 20

// minDescription is the minimum width of a description next to its flag or command, in columns. With less space the
// description begins on the next line, indented by descriptionIndent columns.
const (
	minDescription    = 24
	descriptionIndent = 8
)

// terminalColumns returns the width of a terminal, or 0 if out is not a terminal or its width is unknown.
func terminalColumns(out io.Writer) int {
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

// descriptionStart matches the part of a line of help before the description: a flag with its value, or a command. The
// last alternative matches the longest command, which is followed by only one space.
var descriptionStart = lazy.Regexp(`^( +(?:(?:-\w, )?--[\w-]+(?: \S+)? {3,}|[\w-]+ {2,}))\S|^( +[\w-]+ )[A-Z]`)

// wrapHelp wraps help between words. columns is the maximum width of a line. A paragraph that has a wider line is
// wrapped as a whole. A long description of a flag or a command is wrapped, and its further lines are indented. Other
// indented lines, such as examples, are for copying and stay unchanged. If columns is below minColumns, wrapHelp
// returns help unchanged.
func wrapHelp(help string, columns int) string {
	if columns < minColumns {
		return help
	}
	var out, paragraph []string
	flush := func() {
		for _, line := range paragraph {
			if uniseg.StringWidth(line) > columns {
				paragraph = wrapWords(strings.Fields(strings.Join(paragraph, " ")), "", "", columns)
				break
			}
		}
		out, paragraph = append(out, paragraph...), nil
	}
	verbatim := false
	for line := range strings.SplitSeq(help, "\n") {
		if line != "" && line[0] != ' ' {
			if paragraph = append(paragraph, line); strings.HasSuffix(line, ":") {
				flush() // a list follows
			}
			verbatim = line == "Usage:" || line == "Examples:"
			continue
		}
		flush()
		match := descriptionStart().FindStringSubmatch(line)
		if match == nil || verbatim || uniseg.StringWidth(line) <= columns {
			out = append(out, line)
			continue
		}
		label := match[1] + match[2]
		words, width := strings.Fields(line[len(label):]), uniseg.StringWidth(label)
		if columns-width >= minDescription {
			out = append(out, wrapWords(words, label, strings.Repeat(" ", width), columns)...)
			continue
		}
		indent := strings.Repeat(" ", descriptionIndent)
		out = append(append(out, strings.TrimRight(label, " ")), wrapWords(words, indent, indent, columns)...)
	}
	flush()
	return strings.Join(out, "\n")
}

// wrapWords returns lines with the words. columns is the maximum width of a line: only a single word that does not fit
// makes a line wider. The first line begins with firstIndent, and all other lines with indent.
func wrapWords(words []string, firstIndent, indent string, columns int) (lines []string) {
	line, empty := firstIndent, true
	for _, word := range words {
		switch {
		case empty:
			line, empty = line+word, false
		case uniseg.StringWidth(line)+1+uniseg.StringWidth(word) > columns:
			lines, line = append(lines, line), indent+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

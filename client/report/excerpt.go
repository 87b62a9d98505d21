package report

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/format/project"
)

const (
	// cellsBefore and cellsAfter are the widths of the parts of a line that an excerpt shows before and after the
	// place, in terminal columns.
	cellsBefore, cellsAfter = 60, 60
	// maxWindow is the maximum number of bytes before the place, and after it, that are examined. The columns of an
	// excerpt rarely have more bytes, even with combining marks.
	maxWindow = 16 * (cellsBefore + cellsAfter)
	tabWidth  = 4
)

// cell is a character as readers see it, with its combining marks.
type cell struct {
	text         string
	bytes, width int
}

// excerptLine returns the part of a line around a column, and a second line with a caret below the column. ok is false
// if the excerpt does not contain the place. It examines only a part of a long line.
func excerptLine(e project.Excerpt, line, column int) (text, caret string, ok bool) {
	lineText, offset, ok := lineAt(e, line, max(1, column))
	if !ok {
		return "", "", false
	}
	from, to := max(0, offset-maxWindow), min(len(lineText), offset+maxWindow)
	for from > 0 && !utf8.RuneStart(lineText[from]) {
		from++
	}
	for to < len(lineText) && !utf8.RuneStart(lineText[to]) {
		to--
	}
	visible := cells(lineText[from:to])
	i, consumed := 0, from
	for ; i < len(visible) && consumed+visible[i].bytes <= offset; i++ {
		consumed += visible[i].bytes
	}
	left, right := visible[:i], visible[i:]
	cutLeft, cutRight := e.Before && line == e.Line && e.Column > 1 || from > 0, to < len(lineText)
	width := 0
	for i := len(left) - 1; i >= 0; i-- {
		if width += left[i].width; width > cellsBefore {
			left, cutLeft = left[i+1:], true
			break
		}
	}
	width = 0
	for i, c := range right {
		if width += c.width; width > cellsAfter {
			right, cutRight = right[:i], true
			break
		}
	}
	var b strings.Builder
	width = 0
	if cutLeft {
		b.WriteString("…")
		width = 1
	}
	for _, c := range left {
		b.WriteString(c.text)
		width += c.width
	}
	for _, c := range right {
		b.WriteString(c.text)
	}
	text = strings.TrimRight(b.String(), " ")
	if cutRight {
		text += "…"
	}
	return text, strings.Repeat(" ", width) + "^", true
}

// lineAt returns a line of an excerpt, and the byte offset of the column in it. The line may be incomplete at both
// ends. ok is false if the excerpt does not contain the place.
func lineAt(e project.Excerpt, line, column int) (text string, offset int, ok bool) {
	remaining := e.Text
	for n := e.Line; n < line; n++ {
		i := strings.IndexByte(remaining, '\n')
		if i < 0 {
			return "", 0, false
		}
		remaining = remaining[i+1:]
	}
	if line < e.Line {
		return "", 0, false
	}
	if line == e.Line {
		column -= e.Column - 1
	}
	if i := strings.IndexByte(remaining, '\n'); i >= 0 {
		remaining = strings.TrimSuffix(remaining[:i], "\r")
	}
	for ; column > 1 && offset < len(remaining); column-- {
		_, size := utf8.DecodeRuneInString(remaining[offset:])
		offset += size
	}
	return remaining, offset, column >= 1
}

// cells splits a text into the characters that readers see.
func cells(text string) []cell {
	var out []cell
	width := 0
	for graphemes := uniseg.NewGraphemes(text); graphemes.Next(); {
		c := cell{bytes: len(graphemes.Str())}
		if graphemes.Str() == "\t" {
			c.width = tabWidth - width%tabWidth
			c.text = strings.Repeat(" ", c.width)
		} else {
			c.text = output.Printable(graphemes.Str())
			if c.width = uniseg.StringWidth(c.text); c.width == 0 {
				c.text, c.width = "◌"+c.text, 1 // a single combining mark would combine with the previous character
			}
		}
		out = append(out, c)
		width += c.width
	}
	return out
}

package report

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/project"
)

const (
	// before and behind are how many cells of a line are shown on either side of a place.
	before, behind = 60, 60
	// window is how many bytes are looked at for as many cells: more than they have, combining marks included.
	window = 16 * (before + behind)
	tab    = 4
)

// cell is what a reader takes for one character.
type cell struct {
	text         string
	bytes, width int
}

// cut is the part of a line around a column, as a terminal shows it, and a caret that stands below the column. It is
// false for a place that the excerpt does not have. Of a line of any length it looks at a window.
func cut(e project.Excerpt, line, column int) (text, caret string, ok bool) {
	all, at, ok := lineOf(e, line, max(1, column))
	if !ok {
		return "", "", false
	}
	from, to := max(0, at-window), min(len(all), at+window)
	for from > 0 && !utf8.RuneStart(all[from]) {
		from++
	}
	for to < len(all) && !utf8.RuneStart(all[to]) {
		to--
	}
	shown := cells(all[from:to])
	i, passed := 0, from
	for ; i < len(shown) && passed+shown[i].bytes <= at; i++ {
		passed += shown[i].bytes
	}
	left, right := shown[:i], shown[i:]
	cutLeft, cutRight := e.Before && line == e.Line && e.Column > 1 || from > 0, to < len(all)
	width := 0
	for i := len(left) - 1; i >= 0; i-- {
		if width += left[i].width; width > before {
			left, cutLeft = left[i+1:], true
			break
		}
	}
	width = 0
	for i, c := range right {
		if width += c.width; width > behind {
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

// lineOf is a line of an excerpt, as far as it has it, and where the column begins in it.
func lineOf(e project.Excerpt, line, column int) (text string, at int, ok bool) {
	rest := e.Text
	for n := e.Line; n < line; n++ {
		i := strings.IndexByte(rest, '\n')
		if i < 0 {
			return "", 0, false
		}
		rest = rest[i+1:]
	}
	if line < e.Line {
		return "", 0, false
	}
	if line == e.Line {
		column -= e.Column - 1
	}
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = strings.TrimSuffix(rest[:i], "\r")
	}
	for ; column > 1 && at < len(rest); column-- {
		_, size := utf8.DecodeRuneInString(rest[at:])
		at += size
	}
	return rest, at, column >= 1
}

// cells takes a text apart into what is seen of it.
func cells(text string) []cell {
	var out []cell
	width := 0
	for all := uniseg.NewGraphemes(text); all.Next(); {
		c := cell{bytes: len(all.Str())}
		if all.Str() == "\t" {
			c.width = tab - width%tab
			c.text = strings.Repeat(" ", c.width)
		} else {
			c.text = output.Printable(all.Str())
			if c.width = uniseg.StringWidth(c.text); c.width == 0 {
				c.text, c.width = "◌"+c.text, 1 // a mark of nothing: it would go to what is before it on the screen
			}
		}
		out = append(out, c)
		width += c.width
	}
	return out
}

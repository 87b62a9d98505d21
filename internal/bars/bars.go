// Package bars prints figures beside the bars that they have to keep, as Markdown,
// and tells which of them do not. Read this file, then main.go for the program around it.
package bars

import (
	"fmt"
	"strings"
)

// Beyond are the figures that do not keep their bars. Its zero value is none.
type Beyond struct{ told []string }

// Add adds one, as a text of both.
func (b *Beyond) Add(format string, args ...any) {
	b.told = append(b.told, fmt.Sprintf(format, args...))
}

// Err names them, nil for none.
func (b *Beyond) Err() error {
	if len(b.told) == 0 {
		return nil
	}
	return fmt.Errorf("beyond the bars: %s", strings.Join(b.told, "; "))
}

// Table is a list of figures, with those of them that do not keep their bars. Its zero value is an empty one.
type Table struct {
	Beyond

	rows strings.Builder
}

// Add adds a figure, as texts, and whether it keeps its bar; an empty bar is for
// one that has none.
func (t *Table) Add(name, bar, figure string, keeps bool) {
	fmt.Fprintf(&t.rows, "| %s | %s | %s |\n", name, bar, figure)
	if bar != "" && !keeps {
		t.Beyond.Add("%s: %s, and the bar is %s", name, figure, bar)
	}
}

// String is the table in Markdown.
func (t *Table) String() string {
	return "| figure | bar | here |\n|---|---|---|\n" + t.rows.String()
}

// Package bars prints figures beside the bars that they have to keep, as Markdown,
// and tells which of them do not. There is only this file.
package bars

import (
	"fmt"
	"strings"
)

// Table is a list of figures. Its zero value is an empty one.
type Table struct {
	rows   strings.Builder
	beyond []string
}

// Add adds a figure, as texts, and whether it keeps its bar; an empty bar is for
// one that has none.
func (t *Table) Add(name, bar, figure string, keeps bool) {
	fmt.Fprintf(&t.rows, "| %s | %s | %s |\n", name, bar, figure)
	if bar != "" && !keeps {
		t.beyond = append(t.beyond, fmt.Sprintf("%s: %s, and the bar is %s", name, figure, bar))
	}
}

// String is the table in Markdown.
func (t *Table) String() string {
	return "| figure | bar | here |\n|---|---|---|\n" + t.rows.String()
}

// Err names the figures that do not keep their bars, nil for none.
func (t *Table) Err() error {
	if len(t.beyond) == 0 {
		return nil
	}
	return fmt.Errorf("beyond the bars: %s", strings.Join(t.beyond, "; "))
}

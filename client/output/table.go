package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rivo/uniseg"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// maxCellWidth is the maximum width of a cell in terminal columns, if the cell has an object or a list and the table
// has several rows. Texts are not truncated.
const maxCellWidth = 60

// columnGap is the space between columns.
const columnGap = "  "

// Grid is a table for people.
type Grid struct {
	// Columns are the titles. They are empty for a table of names and values.
	Columns []string
	Rows    [][]string
	// Empty is the message for a table without rows.
	Empty string
}

// String returns the table with one line per row. It aligns the columns by the width of characters on a terminal.
func (g Grid) String() string {
	rows := g.Rows
	if len(rows) == 0 {
		if g.Empty == "" {
			return ""
		}
		return Printable(g.Empty) + "\n"
	}
	if len(g.Columns) > 0 {
		rows = slices.Concat([][]string{g.Columns}, rows)
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(Printable(cell)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			text := Printable(cell)
			line.WriteString(text)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(text)) + columnGap)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// member is a member of an object.
type member struct {
	name  string
	value jsontext.Value
}

// members returns the members of an object in their order. ok is false for any other value.
func members(value jsontext.Value) (all []member, ok bool, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	if d.PeekKind() != jsontext.KindBeginObject {
		return nil, false, nil
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false, err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, false, err
		}
		m.value = value.Clone()
		all = append(all, m)
	}
	_, err = d.ReadToken()
	return all, true, err
}

// entries returns the entries of a list. ok is false for any other value.
func entries(value jsontext.Value) (all []jsontext.Value, ok bool, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	if d.PeekKind() != jsontext.KindBeginArray {
		return nil, false, nil
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false, err
	}
	for d.PeekKind() != jsontext.KindEndArray {
		entry, err := d.ReadValue()
		if err != nil {
			return nil, false, err
		}
		all = append(all, entry.Clone())
	}
	_, err = d.ReadToken()
	return all, true, err
}

// NewTable returns a table of a document. A list, or a page of a list, has one row per entry. Any other object has one
// row per member. Any other value has one cell.
func NewTable(document []byte) (Grid, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return Grid{}, nil
	}
	all, isObject, err := members(document)
	list, isList := jsontext.Value(document), !isObject
	for _, m := range all {
		if m.name == "data" && m.value.Kind() == jsontext.KindBeginArray {
			list, isList = m.value, true
		}
	}
	if err == nil && isList {
		var rows []jsontext.Value
		if rows, isList, err = entries(list); err == nil && isList {
			return newGrid(rows)
		}
	}
	if err != nil {
		return Grid{}, fmt.Errorf("read the document: %w", err)
	}
	if !isObject {
		text, err := fullCell(document)
		return Grid{Rows: [][]string{{text}}}, err
	}
	var g Grid
	for _, m := range all {
		text, err := fullCell(m.value)
		if err != nil {
			return Grid{}, err
		}
		g.Rows = append(g.Rows, []string{m.name, text})
	}
	return g, nil
}

// newGrid returns a table of a list. Its columns are the members of the entries, in the order of their first
// occurrence.
func newGrid(list []jsontext.Value) (Grid, error) {
	g := Grid{Empty: "There are none."}
	var names []string
	var rows []map[string]string
	for _, entry := range list {
		entryMembers, isObject, err := members(entry)
		if err != nil {
			return Grid{}, fmt.Errorf("read the document: %w", err)
		}
		if !isObject {
			entryMembers = []member{{"value", entry}}
		}
		row := map[string]string{}
		for _, m := range entryMembers {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
			if row[m.name], err = Cell(m.value); err != nil {
				return Grid{}, err
			}
		}
		rows = append(rows, row)
	}
	for _, name := range names {
		g.Columns = append(g.Columns, ColumnTitle(name))
	}
	for _, row := range rows {
		var cells []string
		for _, name := range names {
			cells = append(cells, row[name])
		}
		g.Rows = append(g.Rows, cells)
	}
	return g, nil
}

// wordBoundary matches the borders between the words of a member's name.
var wordBoundary = lazy.Regexp(`([a-z0-9])([A-Z])`)

// ColumnTitle returns the column title for a member: CREATED ON for createdOn.
func ColumnTitle(name string) string {
	return strings.ToUpper(wordBoundary().ReplaceAllString(name, "$1 $2"))
}

// Cell returns the text of a value for a table of several rows: a text unchanged, "" for null, and the beginning of an
// object or a list.
func Cell(value jsontext.Value) (string, error) {
	text, err := fullCell(value)
	if k := value.Kind(); k == jsontext.KindBeginObject || k == jsontext.KindBeginArray {
		text = Truncate(text, maxCellWidth)
	}
	return text, err
}

// fullCell returns the complete text of a value. It is for a table of a single object. Such a table may have long
// cells.
func fullCell(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(value))
		return string(text), err
	case jsontext.KindNull:
		return "", nil
	default:
	}
	text := value.Clone()
	if err := text.Compact(); err != nil {
		return "", fmt.Errorf("read the document: %w", err)
	}
	if value.Kind() == jsontext.KindBeginObject || value.Kind() == jsontext.KindBeginArray {
		if plain, ok, err := plainCell(value); ok || err != nil {
			return plain, err
		}
	}
	return string(text), nil
}

// plainCell returns a readable text for an object or a list that has only texts, numbers and booleans: "plan=gold,
// team=blue" for an object such as tags, and "a, b" for a list. ok is false for a value with null, or with objects or
// lists in it, which stays JSON.
func plainCell(value jsontext.Value) (text string, ok bool, err error) {
	all, isObject, err := members(value)
	if err == nil && !isObject {
		var list []jsontext.Value
		list, _, err = entries(value)
		for _, entry := range list {
			all = append(all, member{value: entry})
		}
	}
	var parts []string
	for _, m := range all {
		if k := m.value.Kind(); err != nil || k == jsontext.KindBeginObject || k == jsontext.KindBeginArray ||
			k == jsontext.KindNull {
			return "", false, err
		}
		part, err := Cell(m.value)
		if err != nil {
			return "", false, err
		}
		if isObject {
			part = m.name + "=" + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", "), err == nil, err
}

// maxBytesPerColumn is the maximum number of bytes per terminal column. It limits the number of characters without a
// width, such as accents: a letter can have a million accents.
const maxBytesPerColumn = 16

// Truncate returns the beginning of a text, at most maxWidth terminal columns wide. It adds an ellipsis if the text is
// longer.
func Truncate(text string, maxWidth int) string {
	if maxBytes := maxWidth * maxBytesPerColumn; len(text) > maxBytes {
		text = strings.ToValidUTF8(text[:maxBytes], "")
	} else if uniseg.StringWidth(text) <= maxWidth {
		return text
	}
	var b strings.Builder
	for width, graphemes := 0, uniseg.NewGraphemes(text); graphemes.Next(); {
		if width += graphemes.Width(); width > maxWidth-1 {
			break
		}
		b.WriteString(graphemes.Str())
	}
	return b.String() + "…"
}

func joinFormats(all []Format) string {
	var names []string
	for _, f := range all {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

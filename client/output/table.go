package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rivo/uniseg"

	"github.com/gatewright/gatewright/shared/lazy"
)

// mostCell is how wide a cell of a list is at most that shows an object or a list, in columns of a terminal. Texts are whole.
const mostCell = 60

// gap is between columns.
const gap = "  "

// Grid is a table for a person.
type Grid struct {
	// Columns are the titles, none for a list of names and values.
	Columns []string
	Rows    [][]string
	// Empty is what is said where there are no rows.
	Empty string
}

// String is the table, each row on a line, columns under one another whatever the widths of their characters.
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
				line.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(text)) + gap)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// member is a name of an object with its value.
type member struct {
	name  string
	value jsontext.Value
}

// members are those of an object in their order, and ok is false for any other value.
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

// entries are those of a list, and ok is false for any other value.
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

// TableOf is a document as a table: a list, or a page of one, a row an entry; any other object a row a member.
func TableOf(document []byte) (Grid, error) {
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
			return gridOf(rows)
		}
	}
	if err != nil {
		return Grid{}, fmt.Errorf("read the document: %w", err)
	}
	if !isObject {
		text, err := whole(document)
		return Grid{Rows: [][]string{{text}}}, err
	}
	var g Grid
	for _, m := range all {
		text, err := whole(m.value)
		if err != nil {
			return Grid{}, err
		}
		g.Rows = append(g.Rows, []string{m.name, text})
	}
	return g, nil
}

// gridOf is a list as a table. Its columns are the members of its entries, as they come.
func gridOf(list []jsontext.Value) (Grid, error) {
	g := Grid{Empty: "There are none."}
	var names []string
	var all []map[string]string
	for _, entry := range list {
		of, isObject, err := members(entry)
		if err != nil {
			return Grid{}, fmt.Errorf("read the document: %w", err)
		}
		if !isObject {
			of = []member{{"value", entry}}
		}
		row := map[string]string{}
		for _, m := range of {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
			if row[m.name], err = Cell(m.value); err != nil {
				return Grid{}, err
			}
		}
		all = append(all, row)
	}
	for _, name := range names {
		g.Columns = append(g.Columns, Title(name))
	}
	for _, row := range all {
		var cells []string
		for _, name := range names {
			cells = append(cells, row[name])
		}
		g.Rows = append(g.Rows, cells)
	}
	return g, nil
}

// humps are where the words of a member's name meet.
var humps = lazy.Regexp(`([a-z0-9])([A-Z])`)

// Title is the title of a column with a member of a document: CREATED ON for createdOn.
func Title(name string) string { return strings.ToUpper(humps().ReplaceAllString(name, "$1 $2")) }

// Cell is a value in a table of several: a text as it is, nothing for null, and of what holds others the beginning.
func Cell(value jsontext.Value) (string, error) {
	text, err := whole(value)
	if k := value.Kind(); k == jsontext.KindBeginObject || k == jsontext.KindBeginArray {
		text = Cut(text, mostCell)
	}
	return text, err
}

// whole is a value in a table, all of it: who asks for one object has no other row that needs the room.
func whole(value jsontext.Value) (string, error) {
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

// plainCell is what holds texts, numbers and truths alone, as a person writes it: plan=gold, team=blue of an object such as tags, and a, b of a
// list. ok is false for what holds more, which stays JSON.
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
		if k := m.value.Kind(); err != nil || k == jsontext.KindBeginObject || k == jsontext.KindBeginArray || k == jsontext.KindNull {
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

// mostBytesAColumn bounds what stands in no column of its own, such as accents: one letter may have a million of them.
const mostBytesAColumn = 16

// Cut is the beginning of a text, of at most so many columns of a terminal, with an ellipsis where something is left out.
func Cut(text string, most int) string {
	if longest := most * mostBytesAColumn; len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	} else if uniseg.StringWidth(text) <= most {
		return text
	}
	var b strings.Builder
	for width, all := 0, uniseg.NewGraphemes(text); all.Next(); {
		if width += all.Width(); width > most-1 {
			break
		}
		b.WriteString(all.Str())
	}
	return b.String() + "…"
}

func list(all []Format) string {
	var names []string
	for _, f := range all {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

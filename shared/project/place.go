package project

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/jsonc"
)

// Locate puts lines and columns to problems that have a file and a pointer, and no line yet. A pointer
// leads to the name of a member, to an element or to the document itself; one that leads nowhere, to
// what is nearest above it. A file that is not there, or is not read so far, tells no place.
func Locate(files Files, problems []Problem) {
	byFile := map[string][]*Problem{}
	for i := range problems {
		if p := &problems[i]; p.Line == 0 && p.File != "" && files[p.File] != nil {
			byFile[p.File] = append(byFile[p.File], p)
		}
	}
	for file, all := range byFile {
		locate(textOf(file, files[file]), all)
	}
}

// byteOrderMark is what a reader may ignore at the beginning (RFC 8259).
var byteOrderMark = []byte("\xef\xbb\xbf")

// textOf is a file as the compiler reads it, of which each line and column is what it is in the file.
func textOf(file string, data []byte) []byte {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if file == settingsFile {
		return jsonc.ToJSON(data) // comments become spaces
	}
	return data
}

// wanted is a part of a document that pointers lead to, or through.
type wanted struct {
	parts map[string]*wanted
	// at is where it begins, or -1 while it is not found.
	at int64
}

func (w *wanted) part(token string) *wanted {
	if w.parts == nil {
		w.parts = map[string]*wanted{}
	}
	if w.parts[token] == nil {
		w.parts[token] = &wanted{at: -1}
	}
	return w.parts[token]
}

// locate reads a document once, without what no pointer leads to.
func locate(data []byte, problems []*Problem) {
	root := &wanted{at: -1}
	leads := make(map[*Problem][]*wanted, len(problems))
	for _, p := range problems {
		way := []*wanted{root}
		for _, token := range tokens(p.Path) {
			way = append(way, way[len(way)-1].part(token))
		}
		leads[p] = way
	}
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_ = root.find(d, -1) // what is found before an error stands

	nearest := make(map[*Problem]int64, len(problems))
	for p, way := range leads {
		nearest[p] = -1
		for _, w := range way {
			nearest[p] = max(nearest[p], w.at) // what is deeper begins later
		}
	}
	slices.SortFunc(problems, func(a, b *Problem) int { return cmp.Compare(nearest[a], nearest[b]) })
	from := begin(data)
	for _, p := range problems {
		if at := nearest[p]; at >= 0 {
			p.Line, p.Column = from.to(int(at))
		}
	}
}

// find reads the next value and notes where what is wanted of it begins. At is where its name does, -1 without one.
func (w *wanted) find(d *jsontext.Decoder, at int64) error {
	kind := d.PeekKind()
	if kind != '{' && kind != '[' {
		value, err := d.ReadValue()
		if err == nil {
			w.begins(at, d.InputOffset()-int64(len(value)))
		}
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	w.begins(at, d.InputOffset()-1)
	for i := 0; ; i++ {
		if next := d.PeekKind(); next == '}' || next == ']' || next == jsontext.KindInvalid { // of which the read tells more
			_, err := d.ReadToken()
			return err
		}
		token, at := strconv.Itoa(i), int64(-1)
		if kind == '{' {
			name, err := d.ReadValue()
			if err != nil {
				return err
			}
			at = d.InputOffset() - int64(len(name))
			text, _ := jsontext.AppendUnquote(nil, name)
			token = string(text)
		}
		if part := w.parts[token]; part == nil {
			if err := d.SkipValue(); err != nil {
				return err
			}
		} else if err := part.find(d, at); err != nil {
			return err
		}
	}
}

func (w *wanted) begins(name, value int64) {
	if w.at = name; name < 0 {
		w.at = value
	}
}

// counter tells the lines and columns of a text's offsets, which rise from call to call: it reads the text
// once for all of them. Both count from 1, columns in characters.
type counter struct {
	data             []byte
	at, line, column int
}

func begin(data []byte) *counter { return &counter{data: data, line: 1, column: 1} }

func (c *counter) to(offset int) (line, column int) {
	offset = min(max(offset, c.at), len(c.data))
	passed := c.data[c.at:offset]
	if i := bytes.LastIndexByte(passed, '\n'); i >= 0 {
		c.line += bytes.Count(passed, []byte{'\n'})
		c.column, passed = 1, passed[i+1:]
	}
	c.column += utf8.RuneCount(passed)
	c.at = offset
	return c.line, c.column
}

package project

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/jsonc"

	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// Locate adds lines and columns to problems that have a file but no line. It finds the value that the problem's pointer
// refers to. The place of an object's member is where its name begins. The place of an array's element, or of the whole
// document, is where its value begins. If a pointer's target does not exist or cannot be read, Locate uses the nearest
// parent that it has read. A problem gets no place if files does not have its file, or if no value can be read in the
// file.
func Locate(files Files, problems []Problem) {
	byFile := map[string][]*Problem{}
	for i := range problems {
		if p := &problems[i]; p.Line == 0 && p.File != "" && files[p.File] != nil {
			byFile[p.File] = append(byFile[p.File], p)
		}
	}
	for file, all := range byFile {
		text := withoutMark(files[file])
		if isYAML(file) {
			locateYAML(text, all)
		} else {
			locate(text, withoutComments(file, text), all)
		}
	}
}

// locateYAML sets the lines and columns of problems in a document in YAML.
func locateYAML(text []byte, problems []*Problem) {
	d, err := yamljson.Parse(text)
	if err != nil {
		return // the problems have lines, or are about the whole file
	}
	for _, p := range problems {
		p.Line, p.Column = d.Position(p.Path)
	}
}

// byteOrderMark is the mark that readers can ignore at the beginning of a text (RFC 8259).
var byteOrderMark = []byte("\xef\xbb\xbf")

// withoutMark returns a file without a byte order mark.
func withoutMark(data []byte) []byte { return bytes.TrimPrefix(data, byteOrderMark) }

// withoutComments returns the text of a file as the compiler reads it: gatewright.jsonc without comments. Each byte of a
// comment becomes a space, so lines and offsets stay the same. Columns can differ, because they count characters.
func withoutComments(file string, text []byte) []byte {
	if file == settingsFile {
		return jsonc.ToJSON(text) // comments become spaces
	}
	return text
}

// targetNode is a part of a document that is the target of a pointer, or contains a target.
type targetNode struct {
	children map[string]*targetNode
	// at is the offset of the part's name, or of the part itself if it has no name. It is -1 until the part is found.
	at int64
}

func (n *targetNode) child(token string) *targetNode {
	if n.children == nil {
		n.children = map[string]*targetNode{}
	}
	if n.children[token] == nil {
		n.children[token] = &targetNode{at: -1}
	}
	return n.children[token]
}

// locate sets the lines and columns of problems in one document. It reads the document once, and skips parts without
// targets. data is text without comments.
func locate(text, data []byte, problems []*Problem) {
	root := &targetNode{at: -1}
	nodesByProblem := make(map[*Problem][]*targetNode, len(problems))
	for _, p := range problems {
		nodes := []*targetNode{root}
		for _, token := range tokens(p.Path) {
			nodes = append(nodes, nodes[len(nodes)-1].child(token))
		}
		nodesByProblem[p] = nodes
	}
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_ = root.find(d, -1) // parts found before an error stay valid

	nearest := make(map[*Problem]int64, len(problems))
	for p, nodes := range nodesByProblem {
		nearest[p] = -1
		for _, node := range nodes {
			// Deeper parts begin later, except the parts of an earlier duplicate, which is not in effect.
			nearest[p] = max(nearest[p], node.at)
		}
	}
	slices.SortFunc(problems, func(a, b *Problem) int { return cmp.Compare(nearest[a], nearest[b]) })
	pos := newPositionCounter(text)
	for _, p := range problems {
		if at := nearest[p]; at >= 0 {
			p.Line, p.Column = pos.position(int(at))
		}
	}
}

// find reads the next value, and records the offsets of the target nodes
// in it. at is the offset of the value's name, or -1 if it has no name.
func (n *targetNode) find(d *jsontext.Decoder, at int64) error {
	kind := d.PeekKind()
	if kind != '{' && kind != '[' {
		value, err := d.ReadValue()
		if err == nil {
			n.setOffset(at, d.InputOffset()-int64(len(value)))
		}
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	n.setOffset(at, d.InputOffset()-1)
	for i := 0; ; i++ {
		if next := d.PeekKind(); next == '}' || next == ']' || next == jsontext.KindInvalid { // ReadToken returns the error
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
		if child := n.children[token]; child == nil {
			if err := d.SkipValue(); err != nil {
				return err
			}
		} else if err := child.find(d, at); err != nil {
			return err
		}
	}
}

// setOffset records the offset of the part. name is the offset of its name, or -1 if it has no name. value is the
// offset of its value.
func (n *targetNode) setOffset(name, value int64) {
	if n.at = name; name < 0 {
		n.at = value
	}
}

// positionCounter converts offsets of a text to lines and columns. Offsets must not decrease from call
// to call, because it reads the text only once. Lines and columns begin at 1. Columns count characters.
type positionCounter struct {
	data             []byte
	at, line, column int
}

func newPositionCounter(data []byte) *positionCounter {
	return &positionCounter{data: data, line: 1, column: 1}
}

func (c *positionCounter) position(offset int) (line, column int) {
	offset = min(max(offset, c.at), len(c.data))
	skipped := c.data[c.at:offset]
	if i := bytes.LastIndexByte(skipped, '\n'); i >= 0 {
		c.line += bytes.Count(skipped, []byte{'\n'})
		c.column, skipped = 1, skipped[i+1:]
	}
	c.column += utf8.RuneCount(skipped)
	c.at = offset
	return c.line, c.column
}

package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/shared/format/project"
)

// MaxBytes returns the maximum size of a description: that of a file in a build.
func MaxBytes() int64 { return project.DefaultLimits().FileBytes }

// maxDepth is the maximum number of objects and lists within each other, including the description itself. A
// description in YAML that contains itself would be infinitely deep.
const maxDepth = 128

// tooDeep returns the error for a description that exceeds maxDepth in a line.
func tooDeep(line int) error {
	return fmt.Errorf("line %d: the description has more than %d levels of objects and lists, or contains itself: write "+
		"it with fewer levels", line, maxDepth)
}

// document is a description as JSON.
type document struct {
	value jsontext.Value
	// line returns the line of a JSON pointer in the description's text. It returns 0 if the line is unknown.
	line func(pointer string) int
}

// place returns the line and the pointer of a part of the description, for errors.
func (d document) place(pointer string) string {
	if line := d.line(pointer); line > 0 {
		return fmt.Sprintf("line %d (%s)", line, pointer)
	}
	return pointer
}

// readDocument returns a description as JSON. text is JSON or YAML, in UTF-8. Members keep their order. readDocument
// refuses duplicate names and a second document.
func readDocument(text []byte) (document, error) {
	if err := checkEncoding(text); err != nil {
		return document{}, err
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		return readJSON(text)
	}
	return readYAML(text)
}

// checkEncoding refuses a text that is not in UTF-8. The error names the encoding that the text probably has.
func checkEncoding(text []byte) error {
	var name string
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(text, []byte("\x00\x00\xfe\xff")):
		name = "UTF-32"
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")),
		len(text) > 1 && (text[0] == 0) != (text[1] == 0): // a letter of ASCII has a zero byte in UTF-16
		name = "UTF-16"
	case bytes.IndexByte(text, 0) >= 0:
		return fmt.Errorf("line %d: the description has a zero byte, so that it is no text",
			lineAt(text, bytes.IndexByte(text, 0)))
	case utf8.Valid(text):
		return nil
	default:
		at := 0
		for r, size := utf8.DecodeRune(text); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(text[at:]) {
			at += size
		}
		return fmt.Errorf("line %d: the description is not in UTF-8, but probably in Latin-1 (ISO 8859-1) or "+
			"Windows-1252: save it in UTF-8", lineAt(text, at))
	}
	return fmt.Errorf("the description is in %s: save it in UTF-8", name)
}

// lineAt returns the line of an offset. The first line is 1.
func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(offset, len(text))], []byte("\n"))
}

// readJSON reads a description in JSON.
func readJSON(text []byte) (document, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	value, err := d.ReadValue()
	value = value.Clone()
	if err == nil {
		if offset := deepOffset(text); offset >= 0 {
			return document{}, tooDeep(lineAt(text, offset))
		}
		if rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
			return document{}, fmt.Errorf("line %d: more text follows the description: write one document into a file",
				lineAt(text, len(text)-len(rest)))
		}
	}
	if invalid, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		line := lineAt(text, int(invalid.ByteOffset))
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return document{}, fmt.Errorf("line %d (%s): the object has this name already: remove one of the two", line,
				invalid.JSONPointer)
		}
		return document{}, fmt.Errorf("line %d: the description is no JSON: %w", line, invalid.Err)
	}
	if err == nil {
		err = value.Compact()
	}
	if err != nil {
		return document{}, fmt.Errorf("the description is no JSON: %w", err)
	}
	return document{value, func(pointer string) int {
		const file = "description"
		problems := []project.Problem{{File: file, Path: pointer}}
		project.Locate(project.Files{file: text}, problems)
		return problems[0].Line
	}}, nil
}

// deepOffset returns the offset of the first object or list in a JSON text that exceeds maxDepth, -1 for none.
func deepOffset(text []byte) int {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.ReadToken(); err != nil {
			return -1
		}
		if d.StackDepth() > maxDepth {
			return int(d.InputOffset()) - 1
		}
	}
}

// readYAML reads a description in YAML.
func readYAML(text []byte) (document, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var root, second yaml.Node
	switch err := d.Decode(&root); {
	case errors.Is(err, io.EOF):
		return document{}, errors.New("the description is empty")
	case err != nil:
		return document{}, fmt.Errorf("the description is neither JSON nor YAML: %w", err)
	case len(root.Content) != 1:
		return document{}, errors.New("the description is empty")
	}
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return document{}, fmt.Errorf("the description is neither JSON nor YAML: %w", err)
	default:
		return document{}, fmt.Errorf("line %d: a second document begins here: write one document into a file", second.Line)
	}
	w := yamlWriter{remaining: maxNodes}
	if err := w.value(root.Content[0], 0); err != nil {
		return document{}, err
	}
	return document{w.out.Bytes(), func(pointer string) int { return yamlLine(root.Content[0], pointer) }}, nil
}

// yamlLine returns the line of a JSON pointer in YAML. If the pointer's target does not stand in the text itself,
// because it is merged, yamlLine returns the line of the nearest parent.
func yamlLine(n *yaml.Node, pointer string) int {
	line := n.Line
	for token := range jsontext.Pointer(pointer).Tokens() {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var child *yaml.Node
		for i := range n.Content {
			switch {
			case n.Kind == yaml.SequenceNode && fmt.Sprint(i) == token:
				child, line = n.Content[i], n.Content[i].Line
			case n.Kind == yaml.MappingNode && i%2 == 0 && i+1 < len(n.Content) && n.Content[i].Value == token:
				child, line = n.Content[i+1], n.Content[i].Line
			}
		}
		if child == nil {
			break
		}
		n = child
	}
	return line
}

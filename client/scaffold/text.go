package scaffold

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// MaxBytes returns the maximum size of a description: that of a file in a build.
func MaxBytes() int64 { return project.DefaultLimits().FileBytes }

// maxDepth is the maximum number of objects and lists within each other, including the description itself.
const maxDepth = yamljson.MaxDepth

// tooDeep returns the error for a description that exceeds maxDepth in a line.
func tooDeep(line int) error {
	return fmt.Errorf("line %d: the description has more than %d levels of objects and lists, or contains itself: write "+
		"it with fewer levels", line, maxDepth)
}

// document is a description as JSON. isJSON reports whether its text is JSON, and not YAML.
type document struct {
	value  jsontext.Value
	isJSON bool
	// line returns the line of a JSON pointer in the description's text. It returns 0 if the line is unknown.
	line func(pointer string) int
	// origin returns the pointer in the description of a part of the description with routes. It is nil while the parts have
	// the same pointers.
	origin func(pointer string) string
}

// place returns the line and the pointer of a part of the description, for errors.
func (d document) place(pointer string) string {
	if d.origin != nil {
		pointer = d.origin(pointer)
	}
	if line := d.line(pointer); line > 0 {
		return fmt.Sprintf("line %d (%s)", line, pointer)
	}
	return pointer
}

// readDocument returns a description as JSON. text is JSON or YAML, in UTF-8. Members keep their order. readDocument
// refuses duplicate names and a second document.
func readDocument(text []byte) (document, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if err := yamljson.CheckEncoding(text); err != nil {
		return document{}, err
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		return readJSON(text)
	}
	return readYAML(text)
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
	return document{value: value, isJSON: true, line: func(pointer string) int {
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
	d, err := yamljson.Parse(text)
	if err != nil {
		return document{}, err
	}
	value, err := d.JSON(MaxBytes())
	return document{value: value, line: func(pointer string) int {
		line, _ := d.Position(pointer)
		return line
	}}, err
}

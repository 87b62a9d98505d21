// Package yamljson converts YAML to JSON, and finds the line of each value.
//
// It reads YAML as OpenAPI describes it: names of members are texts, even 200 and on, dates are texts, and merge keys (<<)
// are resolved. It refuses what readers understand in different ways: duplicate names, a second document, and tags of
// types that JSON does not have. The number of nodes and the size of the JSON are bounded: a few lines with aliases can
// expand to gigabytes.
//
// Read this file first. encoding.go recognizes texts that are not UTF-8, write.go writes the JSON, merge.go resolves
// merge keys, and position.go finds lines.
package yamljson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// MaxNodes is the maximum number of nodes of a text, as CountNodes counts them. A node takes some 190 bytes of memory.
const MaxNodes = 1_500_000

// MaxDepth is the maximum number of objects and lists within each other.
const MaxDepth = 128

// Error is a mistake in a text.
type Error struct {
	// Line and Column are the place of the mistake. Both begin at 1, and Column counts characters. Column is 0 if it is
	// unknown, and Line is 0 if the mistake is about the whole text.
	Line, Column int
	// Text says what is wrong and what to do. It begins with a lower-case letter, and does not end with a period.
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Text)
}

// Document is a text in YAML that was read. It is not safe for concurrent use.
type Document struct {
	root *yaml.Node
	// lines is the number of lines of the text. breaks has the lines that only the library counts, in ascending order: they
	// begin after a line break other than a line feed. See otherBreaks.
	lines  int
	breaks []int
	// steps is the number of nodes that Position has visited.
	steps int
}

// Parse reads a text in UTF-8 that has one document. Its error is an *Error.
func Parse(text []byte) (d *Document, err error) {
	if n := CountNodes(text); n > MaxNodes {
		return nil, &Error{Text: fmt.Sprintf("the file has %d nodes of YAML (names, values and comments), and at most %d "+
			"are read: divide it, or write it in JSON", n, MaxNodes)}
	}
	defer func() {
		if reason := recover(); reason != nil { // a defect of the library must not end the process
			d, err = nil, &Error{Text: fmt.Sprintf("the file is no YAML: %v", reason)}
		}
	}()
	d = &Document{lines: 1 + bytes.Count(text, []byte("\n")), breaks: otherBreaks(text)}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, second yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, &Error{Line: 1, Column: 1, Text: "the file is empty"}
	case err != nil:
		return nil, d.syntaxError(text, err)
	case len(root.Content) != 1:
		return nil, &Error{Line: 1, Column: 1, Text: "the file is empty"}
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, d.syntaxError(text, err)
	default:
		return nil, d.failure(&second, "a second document begins here: write one document into a file")
	}
	d.root = root.Content[0]
	return d, nil
}

// inMessage matches the line in a message of the library.
var inMessage = lazy.Regexp(`^yaml: (?:line (\d+): )?`)

// inAliasMessage matches the library's message about an alias whose anchor does not exist.
var inAliasMessage = lazy.Regexp(`^yaml: unknown anchor '(.+)' referenced$`)

// syntaxError returns the *Error for an error of the library about a text.
func (d *Document) syntaxError(text []byte, err error) *Error {
	if match := inAliasMessage().FindStringSubmatch(err.Error()); match != nil {
		return aliasError(text, match[1])
	}
	match := inMessage().FindStringSubmatch(err.Error())
	if match == nil {
		return &Error{Text: "the file is no YAML: " + err.Error()}
	}
	line := 1 // the library leaves out the first line
	if match[1] != "" {
		line, _ = strconv.Atoi(match[1])
	}
	message := err.Error()[len(match[0]):]
	if strings.Contains(message, "tab character") {
		return tabError(text, d.line(line))
	}
	return &Error{Line: d.line(line), Text: "the file is no YAML: " + message}
}

// aliasError returns the *Error about an alias whose anchor does not exist, at the first place that looks like the alias.
// The library does not say where the alias is.
func aliasError(text []byte, name string) *Error {
	const message = "no value above has the anchor &%[1]s to which *%[1]s refers: correct the name, or put it in quotes " +
		"if it is a text"
	printed := fmt.Sprintf("%.80s", name)
	e := &Error{Line: 1, Column: 1, Text: fmt.Sprintf(message, printed)}
	alias, err := regexp.Compile(`(?:^|[\s,:\[{?-])(\*` + regexp.QuoteMeta(name) + `)(?:[\s,\]}]|$)`)
	if err != nil {
		return e
	}
	if at := alias.FindSubmatchIndex(text); at != nil {
		before := text[:at[2]]
		e.Line = 1 + bytes.Count(before, []byte("\n"))
		e.Column = 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	}
	return e
}

// tabError returns the *Error about a tab that indents a line. It looks for the first such line from the line from on,
// because the library names the line where the object begins.
func tabError(text []byte, from int) *Error {
	e := &Error{Line: from, Text: "a tab indents this line: YAML allows only spaces there"}
	line := 0
	for content := range bytes.Lines(text) {
		if line++; line < from {
			continue
		}
		indent := content[:len(content)-len(bytes.TrimLeft(content, " \t"))]
		if at := bytes.IndexByte(indent, '\t'); at >= 0 {
			e.Line, e.Column = line, 1+at
			break
		}
	}
	return e
}

// failure returns the *Error for a node.
func (d *Document) failure(n *yaml.Node, format string, args ...any) *Error {
	return &Error{Line: d.line(n.Line), Column: n.Column, Text: fmt.Sprintf(format, args...)}
}

// CountNodes returns an upper bound for the number of nodes of a text in YAML: its names and values. A comment counts as two
// nodes, because it takes as much memory. CountNodes does not parse the text: it counts the characters that can separate
// nodes, and so also counts those within texts.
func CountNodes(text []byte) int {
	count := 1
	for i, c := range text {
		next := byte(' ')
		if i+1 < len(text) {
			next = text[i+1]
		}
		isEnd := next == ' ' || next == '\n' || next == '\r' || next == '\t'
		switch c {
		case ',', '[', '{':
			count++
		case '#':
			if i == 0 || text[i-1] == ' ' || text[i-1] == '\n' || text[i-1] == '\t' {
				count += 2
			}
		case '-':
			if isEnd {
				count++
			}
		case '?':
			if isEnd || isFlow(next) {
				count += 2
			}
		case ':':
			// The value of a name in quotation marks can follow the colon.
			if isEnd || isFlow(next) || i > 0 && (text[i-1] == '"' || text[i-1] == '\'' || isFlow(text[i-1])) {
				count += 2
			}
		}
	}
	return count
}

// isFlow reports whether a character separates the nodes of lists and objects in brackets.
func isFlow(c byte) bool { return bytes.IndexByte([]byte(",[]{}"), c) >= 0 }

// maxBreaks is the maximum number of line breaks other than line feeds that are counted.
const maxBreaks = 100_000

// otherBreaks returns the numbers of the lines that begin after a line break other than a line feed. The library counts
// such lines, and editors do not.
func otherBreaks(text []byte) (out []int) {
	if !bytes.ContainsAny(text, "\r\u0085\u2028\u2029") {
		return nil
	}
	line := 1
	for i := 0; i < len(text) && len(out) < maxBreaks; {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch r {
		case '\n':
			line++
		case '\r':
			if i < len(text) && text[i] == '\n' {
				continue
			}
			fallthrough
		case '\u0085', '\u2028', '\u2029':
			line++
			out = append(out, line)
		}
	}
	return out
}

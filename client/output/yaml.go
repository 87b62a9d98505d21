package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// surrogates returns the JSON escape of a character beyond U+FFFF, as two surrogates.
func surrogates(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// ToYAML converts a JSON document to YAML. Members keep their order, and numbers their digits.
func ToYAML(document []byte) ([]byte, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(document))
	node, err := readNode(d)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the document: something comes after it")
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(node), e.Close()); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	// The library does not escape characters that change the direction of text. They only occur in quoted strings,
	// where an escape means the same character.
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case !mustEscape(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String()), nil
}

// readNode reads a JSON value as a YAML node.
func readNode(d *jsontext.Decoder) (*yaml.Node, error) {
	switch d.PeekKind() {
	case jsontext.KindBeginObject:
		return readContent(d, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, jsontext.KindEndObject)
	case jsontext.KindBeginArray:
		return readContent(d, &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}, jsontext.KindEndArray)
	default:
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindString:
		return textNode(token.String())
	case jsontext.KindNumber:
		tag := "!!int"
		if strings.ContainsAny(token.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: token.String()}, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: token.String()}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

// textNode returns a node for a text. The text is quoted if it has characters that must be escaped, or if an older YAML
// parser would read it as another type, such as no.
func textNode(text string) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	if strings.ContainsFunc(text, func(r rune) bool { return !isPrintable(r) }) {
		return node, nil
	}
	if err := node.Encode(text); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return node, nil
}

// readContent reads the members of an object or the entries of a list into node. end is the delimiter at which it
// stops.
func readContent(d *jsontext.Decoder, node *yaml.Node, end jsontext.Kind) (*yaml.Node, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != end {
		if d.PeekKind() == jsontext.KindInvalid {
			_, err := d.ReadToken()
			return nil, err
		}
		value, err := readNode(d)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, value)
	}
	_, err := d.ReadToken()
	return node, err
}

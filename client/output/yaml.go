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

// surrogates is a character beyond the first 65,536, as JSON writes it by number.
func surrogates(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// ToYAML writes a document in JSON as YAML: its members in their order, its numbers digit for digit.
func ToYAML(document []byte) ([]byte, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(document))
	node, err := nodeOf(d)
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
	// The library leaves what turns the direction of reading as it is. It is in quotes, where an escape means the same.
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case !hidden(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String()), nil
}

// nodeOf reads one value.
func nodeOf(d *jsontext.Decoder) (*yaml.Node, error) {
	switch d.PeekKind() {
	case jsontext.KindBeginObject:
		return within(d, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, jsontext.KindEndObject)
	case jsontext.KindBeginArray:
		return within(d, &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}, jsontext.KindEndArray)
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

// textNode is a text, which is in quotes where it has what must not be shown, and where a reader of an older YAML would take it for
// something else, such as no.
func textNode(text string) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	if strings.ContainsFunc(text, func(r rune) bool { return !shown(r) }) {
		return node, nil
	}
	if err := node.Encode(text); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return node, nil
}

// within reads an object's names and values, or a list's entries.
func within(d *jsontext.Decoder, node *yaml.Node, end jsontext.Kind) (*yaml.Node, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != end {
		if d.PeekKind() == jsontext.KindInvalid {
			_, err := d.ReadToken()
			return nil, err
		}
		value, err := nodeOf(d)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, value)
	}
	_, err := d.ReadToken()
	return node, err
}

package yamljson

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// writer writes the JSON of a document.
type writer struct {
	document *Document
	out      bytes.Buffer
	// remaining is the number of nodes that may still be written, and maxBytes the maximum size of out.
	remaining int
	maxBytes  int64
}

// JSON returns the document as JSON of at most about maxBytes. Members keep their order. Merged members (<<) follow the
// object's own ones. Numbers that are valid in JSON keep their digits. Its error is an *Error.
func (d *Document) JSON(maxBytes int64) ([]byte, error) {
	w := &writer{document: d, remaining: MaxNodes, maxBytes: maxBytes}
	if err := w.value(d.root, 0); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// fail returns the error for a node.
func (w *writer) fail(n *yaml.Node, format string, args ...any) error {
	return w.document.failure(n, format, args...)
}

// tooLarge returns the error for a node that exceeds maxBytes or MaxNodes.
func (w *writer) tooLarge(n *yaml.Node) error {
	return w.fail(n, "the description is too large, or an alias (*) contains itself: remove or shorten aliases")
}

// tooDeep returns the error for a node that exceeds MaxDepth.
func (w *writer) tooDeep(n *yaml.Node) error {
	return w.fail(n, "the description has more than %d levels of objects and lists, or contains itself: write it with "+
		"fewer levels", MaxDepth)
}

func (w *writer) value(n *yaml.Node, depth int) error {
	if depth >= MaxDepth && (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode) {
		return w.tooDeep(n)
	}
	if w.remaining--; w.remaining < 0 || int64(w.out.Len()) > w.maxBytes {
		return w.tooLarge(n)
	}
	if err := w.checkTag(n); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, depth)
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, entry := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.value(entry, depth+1); err != nil {
				return err
			}
		}
		w.out.WriteByte(']')
		return nil
	case yaml.MappingNode:
		return w.object(n, depth)
	default:
		return w.scalar(n)
	}
}

// checkTag returns an error for a tag of a type that JSON does not have.
func (w *writer) checkTag(n *yaml.Node) error {
	if n.Style&yaml.TaggedStyle == 0 {
		return nil
	}
	switch tag := n.ShortTag(); tag {
	case "!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!!timestamp", "!!merge":
		return nil
	default:
		return w.fail(n, "the tag %.40q has no meaning in JSON: remove it", tag)
	}
}

func (w *writer) object(n *yaml.Node, depth int) error {
	all, err := w.pairs(n, depth)
	if err != nil {
		return err
	}
	w.out.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.text(p.name, p.name.Value); err != nil { // names are texts, also those of responses, such as 200
			return err
		}
		w.out.WriteByte(':')
		if err := w.value(p.value, depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

func (w *writer) text(n *yaml.Node, text string) error {
	quoted, err := jsontext.AppendQuote(w.out.AvailableBuffer(), text)
	if err != nil {
		return w.fail(n, "this text is not UTF-8: correct its escapes")
	}
	w.out.Write(quoted)
	return nil
}

func (w *writer) scalar(n *yaml.Node) error {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		w.out.WriteString("null")
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) != nil {
			return w.fail(n, "this is neither true nor false: correct it, or remove the tag")
		}
		w.out.WriteString(strconv.FormatBool(b))
		return nil
	case "!!int", "!!float":
		if number := number(n.Value); number != "" {
			w.out.WriteString(number)
			return nil
		}
	case "!!str":
		// The library reads a number that no float64 can have as a text.
		if n.Style == 0 && isNumber(n.Value) {
			w.out.WriteString(n.Value)
			return nil
		}
	}
	return w.text(n, n.Value)
}

// number returns the JSON of a number in YAML 1.2, such as .5, +1 and 0x1F. It returns "" for a text that is not a number
// in YAML 1.2, such as 1_000, for numbers that JSON cannot have, such as .inf, and for 010, which YAML 1.1 reads as 8 and
// YAML 1.2 as 10.
func number(text string) string {
	if isNumber(text) {
		return text
	}
	if digits, isHex := strings.CutPrefix(text, "0x"); isHex && len(digits) <= maxDigits {
		if n, ok := new(big.Int).SetString(digits, 16); ok && !strings.ContainsAny(digits, "_+-") {
			return n.String()
		}
		return ""
	}
	if digits, isOctal := strings.CutPrefix(text, "0o"); isOctal && len(digits) <= maxDigits {
		if n, ok := new(big.Int).SetString(digits, 8); ok && !strings.ContainsAny(digits, "_+-") {
			return n.String()
		}
		return ""
	}
	sign := ""
	switch {
	case strings.HasPrefix(text, "-"):
		sign, text = "-", text[1:]
	case strings.HasPrefix(text, "+"):
		text = text[1:]
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i:]
	}
	if text = sign + strings.TrimSuffix(mantissa, ".") + exponent; isNumber(text) {
		return text
	}
	return ""
}

// isNumber reports whether a text is a number in JSON.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || text[len(text)-1] < '0' ||
		text[len(text)-1] > '9' {
		return false
	}
	return jsontext.Value(text).IsValid()
}

// maxDigits is the maximum number of digits of a hexadecimal or octal number.
const maxDigits = 64

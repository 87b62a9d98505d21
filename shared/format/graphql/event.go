package graphql

import (
	"bytes"
	"errors"
)

// errEvent is the error for a part of a stream that cannot be parsed and could contain something hidden.
var errEvent = errors.New("a part of the stream is no JSON, and may tell of what is hidden")

// FilterEvent filters the errors in a line of a streamed response, which consists of server-sent events or of the parts
// of a multipart body. Servers report errors of subscriptions in such lines. requested is as in Filter. FilterEvent
// returns a line unchanged if there is nothing to remove, or if the line cannot be parsed and has no suggestion. If
// FilterEvent returns an error, the line must not reach the client.
func (h *Hidden) FilterEvent(line []byte, requested func(name string) bool) ([]byte, error) {
	if !bytes.Contains(line, []byte(`"errors"`)) && !suggestion().Match(line) {
		return line, nil
	}
	text := bytes.TrimRight(line, "\r\n")
	field, _ := bytes.CutPrefix(text, []byte("data:"))
	before, after := line[:len(text)-len(field)], line[len(text):]
	root, err := parseTree(field, false)
	if err != nil {
		if suggestion().Match(field) {
			return nil, errEvent
		}
		return line, nil
	}
	f := filterPass{Hidden: h, requested: requested}
	// Some streaming protocols wrap each response into an object, as its member payload.
	for _, n := range []*node{root, root.get("payload")} {
		if n != nil {
			f.filterErrors(n)
		}
	}
	if !f.changed {
		return line, nil
	}
	out := append(make([]byte, 0, len(line)+1), before...)
	if len(before) > 0 {
		out = append(out, ' ')
	}
	return append(root.append(out), after...), nil
}

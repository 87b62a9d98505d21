package graphql

import (
	"bytes"
	"errors"
)

// errEvent is the error for a part of a stream that may tell of something hidden and can't be read.
var errEvent = errors.New("a part of the stream is no JSON, and may tell of what is hidden")

// FilterEvent filters a line of a stream of answers, of server-sent events or of parts of a multipart body: servers
// report there what is wrong with a subscription. A line that has nothing to be filtered is answered as it came. An error
// means that nobody is to see it.
func (h *Hidden) FilterEvent(line []byte, asked func(name string) bool) ([]byte, error) {
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
	f := filtering{Hidden: h, asked: asked}
	// Protocols that carry several answers put each into an envelope.
	for _, n := range []*node{root, root.get("payload")} {
		if n != nil {
			f.errorsOf(n)
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

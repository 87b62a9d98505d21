package policy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
)

// asked says which names stand in the requests of a body: an error that repeats them tells nothing new.
func asked(b *graphql.Body) func(name string) bool {
	words := sync.OnceValue(func() map[string]bool {
		all := map[string]bool{}
		for i := range b.Requests {
			for _, text := range []string{b.Requests[i].Query, string(b.Requests[i].Variables)} {
				for word := range graphql.Words(text) {
					all[word] = true
				}
			}
		}
		return all
	})
	return func(name string) bool { return words()[name] }
}

// events filters a stream of answers, line by line.
func (p *introspectionFilter) events(x *pipeline.Exchange, r *http.Response) *http.Response {
	switch encoding := r.Header.Get("Content-Encoding"); {
	case !subscribes(x.GraphQL):
		return p.unreadable(x, r, errors.New("the answer is a stream that nobody has asked for"))
	case encoding != "" && encoding != "identity":
		return p.unreadable(x, r, errCompression)
	}
	r.ContentLength = -1
	delete(r.Header, "Content-Length")
	known := asked(x.GraphQL.Body)
	r.Body = &eventBody{
		ReadCloser: r.Body, lines: bufio.NewReader(r.Body),
		filter: func(line []byte) ([]byte, error) { return p.hidden.FilterEvent(line, known) },
	}
	return r
}

// eventBody is a body whose lines pass a filter, each as soon as it has come to its end.
type eventBody struct {
	io.ReadCloser
	lines  *bufio.Reader
	filter func(line []byte) ([]byte, error)
	rest   []byte // of the line that is being read
	err    error  // behind it
}

// Read implements io.Reader.
func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		var line []byte
		if line, b.err = b.line(); len(line) == 0 {
			continue
		}
		filtered, err := b.filter(line)
		if err != nil {
			b.err = err
			continue
		}
		b.rest = filtered
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// line reads one, with what ends it.
func (b *eventBody) line() ([]byte, error) {
	var line []byte
	for {
		part, err := b.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		case len(line) > maxFilteredBytes:
			return nil, fmt.Errorf("a line of the stream has more than %d bytes", maxFilteredBytes)
		}
	}
}

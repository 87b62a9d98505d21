package policy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
)

// requestedNames returns a function that reports whether the requests of a body
// contain a name. An error that repeats such a name reveals nothing new.
func requestedNames(b *graphql.Body) func(name string) bool {
	names := sync.OnceValue(func() map[string]bool {
		all := map[string]bool{}
		for i := range b.Requests {
			for _, text := range []string{b.Requests[i].Query, string(b.Requests[i].Variables)} {
				for name := range graphql.Names(text) {
					all[name] = true
				}
			}
		}
		return all
	})
	return func(name string) bool { return names()[name] }
}

// filterEvents filters a stream of responses, line by line.
func (f *introspectionFilter) filterEvents(x *pipeline.Exchange, r *http.Response) *http.Response {
	switch encoding := r.Header.Get("Content-Encoding"); {
	case !subscribes(x.GraphQL):
		return f.badResponse(x, r, errors.New("the answer is a stream that nobody has asked for"))
	case encoding != "" && encoding != "identity":
		return f.badResponse(x, r, errCompression)
	}
	r.ContentLength = -1
	delete(r.Header, "Content-Length")
	known := requestedNames(x.GraphQL.Body)
	r.Body = &eventBody{
		ReadCloser: r.Body, lines: bufio.NewReader(r.Body),
		filter: func(line []byte) ([]byte, error) { return f.hidden.FilterEvent(line, known) },
	}
	return r
}

// eventBody is a body that filters each line as soon as it is complete.
type eventBody struct {
	io.ReadCloser
	lines   *bufio.Reader
	filter  func(line []byte) ([]byte, error)
	pending []byte // the filtered bytes of the current line that were not returned yet
	err     error  // returned by Read after pending
}

// Read implements io.Reader.
func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.pending) == 0 {
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
		b.pending = filtered
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}

// line reads a line with its line ending.
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

package policy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// requestReadableEncoding makes the upstream compress its response
// with gzip if the client accepts gzip, and not at all otherwise.
func requestReadableEncoding(x *pipeline.Exchange) {
	encoding := "identity"
	if acceptsGzip(x.Header["Accept-Encoding"]) {
		encoding = "gzip"
	}
	x.Header["Accept-Encoding"] = []string{encoding}
}

// acceptsGzip reports whether a client accepts gzip explicitly, with a weight above 0.
func acceptsGzip(values []string) bool {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			coding, weight, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				_, q, _ := strings.Cut(weight, "=")
				return strings.Trim(q, " \t0.") != "" || strings.TrimSpace(q) == ""
			}
		}
	}
	return false
}

// isJSONResponse reports whether the content type of a response is a kind of JSON.
func isJSONResponse(r *http.Response) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == jsonType || strings.HasSuffix(kind, "+json"))
}

// isStream reports whether the content type of a response is a stream of parts.
func isStream(r *http.Response) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == "text/event-stream" || strings.HasPrefix(kind, "multipart/"))
}

// graphQLResponse is the body of a response that is being read.
type graphQLResponse struct {
	body io.Reader
	raw  bytes.Buffer // the bytes that were read from body, still compressed
	text io.Reader    // reads body and decompresses it
	head []byte       // the bytes that startsWithData has read from text
}

var errCompression = errors.New("the answer is compressed as it was not asked for")

// openResponse starts to read a response's body. After an error, only restore can be called.
func openResponse(r *http.Response) (*graphQLResponse, error) {
	gr := &graphQLResponse{body: r.Body}
	gr.text = io.TeeReader(r.Body, &gr.raw)
	var encodings []string
	for _, value := range r.Header["Content-Encoding"] {
		for encoding := range strings.SplitSeq(value, ",") {
			if encoding = strings.ToLower(strings.TrimSpace(encoding)); encoding != "" && encoding != "identity" {
				encodings = append(encodings, encoding)
			}
		}
	}
	switch {
	case len(encodings) == 0:
		return gr, nil
	case len(encodings) > 1 || encodings[0] != "gzip" && encodings[0] != "x-gzip":
		return gr, errCompression
	}
	unzipped, err := gzip.NewReader(gr.text)
	if err != nil {
		return gr, fmt.Errorf("unzip the answer: %w", err)
	}
	gr.text = unzipped
	return gr, nil
}

// prefixBytes is the maximum number of bytes of a response that startsWithData reads.
const prefixBytes = 32

// startsWithData reports whether the response belongs to a single request and begins with the member
// "data", which is an object. If a server has not executed the request, its response begins with "errors".
func (gr *graphQLResponse) startsWithData() bool {
	head := make([]byte, prefixBytes)
	n, err := io.ReadFull(gr.text, head)
	gr.head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	rest := gr.head
	for _, token := range []string{"{", `"data"`, ":", "{"} {
		var found bool
		if rest, found = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(token)); !found {
			return false
		}
	}
	return true
}

// startsAsJSON reports whether the response begins like JSON. It ignores the content type, because some servers send
// JSON with another type. Call startsWithData first, because it reads the beginning of the response.
func (gr *graphQLResponse) startsAsJSON() bool {
	head := bytes.TrimLeft(bytes.TrimPrefix(gr.head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// readAll reads the whole decompressed response. A response of more than limit bytes is an error.
func (gr *graphQLResponse) readAll(limit int64) ([]byte, error) {
	rest, err := io.ReadAll(io.LimitReader(gr.text, limit+1-int64(len(gr.head))))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case int64(len(gr.head)+len(rest)) > limit:
		return nil, fmt.Errorf("the answer has more than %d bytes", limit)
	case len(gr.head) == 0:
		return rest, nil
	}
	return append(gr.head, rest...), nil
}

// restore makes the response's body begin again with the bytes that were already read.
func (gr *graphQLResponse) restore(r *http.Response) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&gr.raw, gr.body), r.Body}
}

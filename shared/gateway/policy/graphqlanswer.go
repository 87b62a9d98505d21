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

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// askReadable has the upstream compress its answer by gzip, if the client takes that, and by
// nothing else.
func askReadable(x *pipeline.Exchange) {
	encoding := "identity"
	if acceptsGzip(x.Header["Accept-Encoding"]) {
		encoding = "gzip"
	}
	x.Header["Accept-Encoding"] = []string{encoding}
}

// acceptsGzip is whether a client names gzip without a weight of 0.
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

// isJSONAnswer is whether an answer says that it is JSON, of whatever kind.
func isJSONAnswer(r *http.Response) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == jsonType || strings.HasSuffix(kind, "+json"))
}

// isStream is whether an answer says that it comes in parts, which are not waited for.
func isStream(r *http.Response) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == "text/event-stream" || strings.HasPrefix(kind, "multipart/"))
}

// graphQLAnswer is the body of a response while it is read, and what has come of it.
type graphQLAnswer struct {
	body io.Reader
	raw  bytes.Buffer // as it came
	text io.Reader    // without its compression
	head []byte       // of the text
}

var errCompression = errors.New("the answer is compressed as it was not asked for")

// openAnswer begins to read a response's body. With an error it can be restored, and not be read.
func openAnswer(r *http.Response) (*graphQLAnswer, error) {
	a := &graphQLAnswer{body: r.Body}
	a.text = io.TeeReader(r.Body, &a.raw)
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
		return a, nil
	case len(encodings) > 1 || encodings[0] != "gzip" && encodings[0] != "x-gzip":
		return a, errCompression
	}
	unzipped, err := gzip.NewReader(a.text)
	if err != nil {
		return a, fmt.Errorf("unzip the answer: %w", err)
	}
	a.text = unzipped
	return a, nil
}

// headBytes is what is read of an answer to see how it begins.
const headBytes = 32

// beginsWithData is whether the answer is that to one request, and begins with data. Servers send
// errors first, or alone, where they have not executed anything.
func (a *graphQLAnswer) beginsWithData() bool {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(a.text, head)
	a.head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	rest := a.head
	for _, token := range []string{"{", `"data"`, ":", "{"} {
		var found bool
		if rest, found = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(token)); !found {
			return false
		}
	}
	return true
}

// beginsAsJSON is whether what beginsWithData has read may be an answer, whatever its content type says: not
// every server says that it sends JSON.
func (a *graphQLAnswer) beginsAsJSON() bool {
	head := bytes.TrimLeft(bytes.TrimPrefix(a.head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// whole reads the answer to its end, of at most so many bytes.
func (a *graphQLAnswer) whole(most int64) ([]byte, error) {
	rest, err := io.ReadAll(io.LimitReader(a.text, most+1-int64(len(a.head))))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case int64(len(a.head)+len(rest)) > most:
		return nil, fmt.Errorf("the answer has more than %d bytes", most)
	case len(a.head) == 0:
		return rest, nil
	}
	return append(a.head, rest...), nil
}

// restore has the response begin with what was read of it, byte for byte.
func (a *graphQLAnswer) restore(r *http.Response) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&a.raw, a.body), r.Body}
}

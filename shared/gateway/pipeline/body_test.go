package pipeline_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// closed is a body that knows whether it was closed.
type closed struct {
	io.Reader
	done bool
}

// Close implements io.Closer.
func (b *closed) Close() error {
	b.done = true
	return nil
}

// describing says much of the bytes of a body.
func describing() http.Header {
	return http.Header{
		"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}, "Content-Digest": {"a"}, "Repr-Digest": {"a"}, "Digest": {"a"}, "Content-Md5": {"a"},
		"Content-Language": {"de"}, "X-Mine": {"yes"},
	}
}

// replacing is a policy that puts another body in place of a request's.
type replacing struct{ refused *http.Response }

// Inbound implements pipeline.Inbound.
func (r replacing) Inbound(x *pipeline.Exchange) *http.Response {
	x.SetBody(func() ([]byte, *http.Response) { return []byte("{}"), r.refused }, "application/json")
	return nil
}

// asked is a handler that notes what it was asked.
type asked struct {
	x    *pipeline.Exchange
	body string
}

// Handle implements pipeline.Handler.
func (a *asked) Handle(x *pipeline.Exchange) *http.Response {
	all, _ := io.ReadAll(x.Body)
	a.x, a.body = x, string(all)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
}

// TestAnotherBodyHasNothingOfTheOldOne: what is said of the old one's bytes is wrong of it, and a trailer of the old one
// would come behind a body of known length.
func TestAnotherBodyHasNothingOfTheOldOne(t *testing.T) {
	t.Parallel()
	old, handler := &closed{Reader: strings.NewReader("old")}, &asked{}
	route := &pipeline.Route{Inbound: []pipeline.Inbound{replacing{}}, Handler: handler}
	x := &pipeline.Exchange{Context: t.Context(), Header: describing(), Body: old, ContentLength: 3, Trailer: http.Header{"X-Sum": {"1"}}}
	if response := route.Run(x); response.StatusCode != http.StatusOK || handler.x == nil {
		t.Fatalf("answered %d", response.StatusCode)
	}
	if handler.body != "{}" || x.ContentLength != 2 || x.Trailer != nil || !old.done {
		t.Errorf("the handler got %q of %d bytes with the trailer %v; the old body is closed: %t", handler.body, x.ContentLength, x.Trailer, old.done)
	}
	left(t, x.Header, "Content-Type: application/json", "Content-Language: de", "X-Mine: yes")
}

// TestABodyThatIsRefusedGoesNowhere, although all policies have let the exchange go on.
func TestABodyThatIsRefusedGoesNowhere(t *testing.T) {
	t.Parallel()
	handler := &asked{}
	refusal := &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: http.NoBody}
	route := &pipeline.Route{Inbound: []pipeline.Inbound{replacing{refusal}}, Handler: handler}
	x := &pipeline.Exchange{Context: t.Context(), Header: describing(), Body: http.NoBody}
	settled := 0
	x.After(func(r *http.Response, handled bool) {
		if settled++; handled || r != refusal {
			t.Errorf("settled with %d, handled %t", r.StatusCode, handled)
		}
	})
	x.Tell("X-Limit", "1")
	if response := route.Run(x); response != refusal || handler.x != nil || settled != 1 || response.Header.Get("X-Limit") != "1" {
		t.Errorf("answered %d, settled %d times, told %v", response.StatusCode, settled, response.Header)
	}
}

// TestAnotherAnswerHasNothingOfTheOldOne: caches would take it for the old one, or parts of the old one for its own.
func TestAnotherAnswerHasNothingOfTheOldOne(t *testing.T) {
	t.Parallel()
	old := &closed{Reader: strings.NewReader("old")}
	r := &http.Response{Header: describing(), Body: old, ContentLength: 3, Trailer: http.Header{"X-Sum": {"1"}}}
	r.Header["Etag"], r.Header["Accept-Ranges"], r.Header["Content-Length"] = []string{`"1"`}, []string{"bytes"}, []string{"3"}
	pipeline.SetResponseBody(r, []byte("other"))
	if all, err := io.ReadAll(r.Body); string(all) != "other" || err != nil || r.ContentLength != 5 || r.Trailer != nil || !old.done {
		t.Errorf("the body is %q of %d bytes with the trailer %v; the old one is closed: %t", all, r.ContentLength, r.Trailer, old.done)
	}
	left(t, r.Header, "Content-Type: text/plain", "Content-Length: 5", "Content-Language: de", "X-Mine: yes")
}

// left holds that a header has these fields and no others.
func left(t *testing.T, h http.Header, want ...string) {
	t.Helper()
	for _, field := range want {
		name, value, _ := strings.Cut(field, ": ")
		if got := strings.Join(h[name], ", "); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if len(h) != len(want) {
		t.Errorf("left are %v", h)
	}
}

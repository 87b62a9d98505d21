package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// oneService answers every request, with a trailer that comes at the end of a body of known length.
type oneService struct{ asked tunnel.Caller }

// RoundTrip implements upstream.Services.
func (s *oneService) RoundTrip(_ *http.Request, _, _ string, c tunnel.Caller) (*http.Response, error) {
	s.asked = c
	response := &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: 2}
	response.Body = &trailing{strings.NewReader("ok"), response}
	return response, nil
}

type trailing struct {
	io.Reader
	response *http.Response
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.response.Trailer = http.Header{"Set-Cookie": {"a=1"}, "Connection": {"close"}, "X-Sum": {"7"}}
	}
	return n, err
}

func (b *trailing) Close() error { return nil }

// TestTrailersOfServicesAreCleaned that nothing announces, also behind a body of known length, as
// HTTP/2 has them and HTTP/1 has not: a client of HTTP/2 would get them.
func TestTrailersOfServicesAreCleaned(t *testing.T) {
	its := &oneService{}
	client := upstream.New(upstream.Options{Services: its})
	t.Cleanup(client.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "service://Stock/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	shop := tunnel.Caller{Project: "shop", Environment: "production"}
	response, err := client.Account("a1").Calling(shop).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	upstream.CleanResponse(response)
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if len(response.Trailer) != 1 || response.Trailer.Get("X-Sum") != "7" || its.asked != shop {
		t.Errorf("%+v is answered the trailer %v", its.asked, response.Trailer)
	}
}

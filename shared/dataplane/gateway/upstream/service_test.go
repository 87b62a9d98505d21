package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// recordingService records its caller, and responds to every request with trailers after a body of known length.
type recordingService struct{ caller tunnel.Caller }

// RoundTrip implements upstream.Services.
func (s *recordingService) RoundTrip(_ *http.Request, _, _ string, c tunnel.Caller) (*http.Response, error) {
	s.caller = c
	response := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, ContentLength: 2,
	}
	response.Body = &lateTrailerBody{strings.NewReader("ok"), response}
	return response, nil
}

// lateTrailerBody is a body that sets the trailer of its response when it has ended.
type lateTrailerBody struct {
	io.Reader
	response *http.Response
}

func (b *lateTrailerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.response.Trailer = http.Header{"Set-Cookie": {"a=1"}, "Connection": {"close"}, "X-Sum": {"7"}}
	}
	return n, err
}

func (b *lateTrailerBody) Close() error { return nil }

// TestTrailersOfServicesAreCleaned checks that undeclared trailers are cleaned even after a body of
// known length. In HTTP/1 such trailers can't be sent, but a client of HTTP/2 would receive them.
func TestTrailersOfServicesAreCleaned(t *testing.T) {
	service := &recordingService{}
	client := upstream.New(upstream.Options{Services: service})
	t.Cleanup(client.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "service://Stock/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	shop := tunnel.Caller{Project: "shop", Environment: "production"}
	response, err := client.Account("a1").WithCaller(shop).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	upstream.CleanResponse(response)
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if len(response.Trailer) != 1 || response.Trailer.Get("X-Sum") != "7" {
		t.Errorf("trailer after CleanResponse() = %v, want only X-Sum 7", response.Trailer)
	}
	if service.caller != shop {
		t.Errorf("RoundTrip() calls the service for %+v, want %+v", service.caller, shop)
	}
}

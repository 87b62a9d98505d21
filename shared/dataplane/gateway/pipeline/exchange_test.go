package pipeline_test

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// TestInnerExchangeHasTheSameCaller checks which values an inner exchange has from the outer one. It also checks that
// the inner exchange has no method, path, query and body, and that its changes do not affect the outer one.
func TestInnerExchangeHasTheSameCaller(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	x := &pipeline.Exchange{
		Context: t.Context(), Method: http.MethodPost, Path: "/mcp", RawPath: "/./mcp", Scheme: "https", Host: "shop.test",
		Header:        http.Header{"X-Mine": {"yes"}},
		ContentLength: 7, Trailer: http.Header{"X-Sum": nil}, Upgrade: "websocket", Client: netip.MustParseAddr("192.0.2.7"),
		RequestID:   "r",
		ClientChain: []*x509.Certificate{{}}, Start: time.Unix(1, 0), Now: func() time.Time {
			return now
		}, User: &pipeline.User{Sub: "acme"},
	}
	x.SetQuery("a=1")
	x.Withhold("x-key")
	x.WithholdText("secret")
	x.AddResponseField("X-Limit", "1")
	x.OnResponse(func(*http.Response, bool) {
		t.Error("OnResponse of the outer exchange is called, want no call at the end of the inner one")
	})

	inner := x.Inner()
	if inner.Context != x.Context || inner.Client != x.Client || inner.RequestID != "r" || inner.User != x.User {
		t.Errorf("Inner(): same context = %t, client = %v, request ID = %q, user = %+v, want true, %v, r and the same %+v",
			inner.Context == x.Context, inner.Client, inner.RequestID, inner.User, x.Client, x.User)
	}
	if inner.Scheme != "https" || inner.Host != "shop.test" || !slices.Equal(inner.ClientChain, x.ClientChain) ||
		!inner.Start.Equal(now) {
		t.Errorf("Inner() origin = %s://%s, certificates = %d, start = %v, want https://shop.test, the same one and %v",
			inner.Scheme, inner.Host, len(inner.ClientChain), inner.Start, now)
	}
	if inner.Method != "" || inner.Path != "" || inner.RawPath != "" || inner.Query != "" {
		t.Errorf("Inner() method = %q, path = %q, raw path = %q, query = %q, want all empty",
			inner.Method, inner.Path, inner.RawPath, inner.Query)
	}
	if inner.Body != http.NoBody || inner.ContentLength != 0 || inner.Trailer != nil || inner.Upgrade != "" {
		t.Errorf("Inner() body = %v (%d bytes), trailer = %v, upgrade = %q, want http.NoBody (0 bytes) and no others",
			inner.Body, inner.ContentLength, inner.Trailer, inner.Upgrade)
	}
	inner.Header.Set("X-Mine", "no")
	inner.Withhold("X-Other")
	inner.WithholdText("other")
	if x.Header.Get("X-Mine") != "yes" || len(x.Withheld()) != 1 || len(x.WithheldTexts()) != 1 {
		t.Errorf("outer exchange after changes of the inner one: header = %v, withheld = %v, %d texts, want X-Mine: yes, 1 "+
			"field and 1 text",
			x.Header, x.Withheld(), len(x.WithheldTexts()))
	}
	if want := []string{"X-Key", "X-Other"}; !slices.Equal(inner.Withheld(), want) ||
		inner.WithheldTexts()[0] != "secret" {
		t.Errorf("Withheld() = %v, WithheldTexts() = %v, want %v and the first text of the outer exchange",
			inner.Withheld(), inner.WithheldTexts(), want)
	}
	response := (&pipeline.Route{Handler: &recordingHandler{}}).Run(inner)
	_ = response.Body.Close()
	if len(response.Header) != 0 {
		t.Errorf("Run(inner) header = %v, want no fields", response.Header)
	}
}

// TestPathsWithWithheldTextsAreRedacted checks paths that contain a withheld text in any escaped
// form. A path that can't be unescaped is also redacted, because it may contain the text.
func TestPathsWithWithheldTextsAreRedacted(t *testing.T) {
	t.Parallel()
	x := &pipeline.Exchange{}
	if got := x.Redacted("/a/secret"); got != "/a/secret" {
		t.Errorf("Redacted(/a/secret) without withheld texts = %s, want it unchanged", got)
	}
	x.WithholdText("secret")
	for path, want := range map[string]string{
		"/a/b": "/a/b", "/a/secret/b": "/withheld", "/a/s%65cret": "/withheld",
		"/secret%zz": "/withheld", "/s%65cret%": "/withheld",
	} {
		if got := x.Redacted(path); got != want {
			t.Errorf("Redacted(%s) = %s, want %s", path, got, want)
		}
	}
}

package pipeline_test

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// TestInnerExchangesAreOfTheSameCaller: limits by address, certificates of clients and what is withheld hold for what is
// called on somebody's behalf as for the caller's own request.
func TestInnerExchangesAreOfTheSameCaller(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	x := &pipeline.Exchange{
		Context: t.Context(), Method: http.MethodPost, Path: "/mcp", Written: "/./mcp", Scheme: "https", Host: "shop.test", Header: http.Header{"X-Mine": {"yes"}},
		ContentLength: 7, Trailer: http.Header{"X-Sum": nil}, Upgrade: "websocket", Client: netip.MustParseAddr("192.0.2.7"), RequestID: "r",
		ClientChain: []*x509.Certificate{{}}, Start: time.Unix(1, 0), Now: func() time.Time { return now }, User: &pipeline.User{Sub: "acme"},
	}
	x.SetQuery("a=1")
	x.Withhold("x-key")
	x.WithholdText("secret")
	x.Tell("X-Limit", "1")
	x.After(func(*http.Response, bool) { t.Error("the outer exchange is told of the inner one's end") })

	inner := x.Inner()
	if inner.Context != x.Context || inner.Scheme != "https" || inner.Host != "shop.test" || inner.Client != x.Client || inner.RequestID != "r" ||
		len(inner.ClientChain) != 1 || inner.ClientChain[0] != x.ClientChain[0] || inner.User != x.User || !inner.Start.Equal(now) {
		t.Errorf("the inner exchange is %+v", inner)
	}
	if inner.Method != "" || inner.Path != "" || inner.Written != "" || inner.Query != "" || inner.Body != http.NoBody || inner.ContentLength != 0 || inner.Trailer != nil || inner.Upgrade != "" {
		t.Errorf("it has parts of the outer request: %+v", inner)
	}
	inner.Header.Set("X-Mine", "no")
	inner.Withhold("X-Other")
	inner.WithholdText("other")
	if x.Header.Get("X-Mine") != "yes" || len(x.Withheld()) != 1 || len(x.WithheldTexts()) != 1 {
		t.Errorf("what is told to the inner exchange shows in the outer one: %v %v", x.Header, x.Withheld())
	}
	if want := []string{"X-Key", "X-Other"}; !slices.Equal(inner.Withheld(), want) || inner.WithheldTexts()[0] != "secret" {
		t.Errorf("withheld are %v", inner.Withheld())
	}
	response := (&pipeline.Route{Handler: &asked{}}).Run(inner)
	_ = response.Body.Close()
	if len(response.Header) != 0 {
		t.Errorf("the inner response has fields of the outer one: %v", response.Header)
	}
}

// TestPathsWithWithheldTextsAreNotShown, however they are escaped; what can't be unescaped may have one too.
func TestPathsWithWithheldTextsAreNotShown(t *testing.T) {
	t.Parallel()
	x := &pipeline.Exchange{}
	if got := x.Redacted("/a/secret"); got != "/a/secret" {
		t.Errorf("nothing is withheld, and shown is %s", got)
	}
	x.WithholdText("secret")
	for path, want := range map[string]string{"/a/b": "/a/b", "/a/secret/b": "/withheld", "/a/s%65cret": "/withheld", "/secret%zz": "/withheld", "/s%65cret%": "/withheld"} {
		if got := x.Redacted(path); got != want {
			t.Errorf("%s: shown is %s", path, got)
		}
	}
}

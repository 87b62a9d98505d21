package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// TestOptionsAreTakenUpToTheirBounds, and the problem names the one that is beyond.
func TestOptionsAreTakenUpToTheirBounds(t *testing.T) {
	t.Parallel()
	const operations = `"operations":[{"file":"a","id":"b"}]`
	text := func(name string, size int) string {
		return fmt.Sprintf(`{%q:%q,%s}`, name, strings.Repeat("x", size), operations)
	}
	for raw, want := range map[string]string{
		"{" + operations + "}":              "",
		text("name", maxName):               "",
		text("name", maxName+1):             "/name",
		text("version", maxVersion):         "",
		text("version", maxVersion+1):       "/version",
		`{"name":" ",` + operations + `}`:   "/name",
		`{"version":"",` + operations + `}`: "/version",
		`{"operations":[]}`:                 "/operations",
	} {
		_, problems := New(json.RawMessage(raw))
		if (want == "") != (len(problems) == 0) || want != "" && (len(problems) != 1 || problems[0].Path != "/options"+want) {
			t.Errorf("%.60s: %+v, want a problem at %q", raw, problems, want)
		}
	}
}

// TestPagesOfTheSameOriginAlone may call without a word of the CORS policy: a scheme, a host and a port that are the
// request's own, and nothing else, written once.
func TestPagesOfTheSameOriginAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		origins      []string
		scheme, host string
		may          bool
	}{
		{nil, "https", "shop.test", true},
		{[]string{"https://shop.test"}, "https", "shop.test", true},
		{[]string{"https://SHOP.test:443"}, "https", "shop.test", true},
		{[]string{"https://shop.test"}, "https", "shop.test:443", true},
		{[]string{"http://shop.test:8080"}, "http", "shop.test:8080", true},
		{[]string{"http://shop.test"}, "https", "shop.test", false},
		{[]string{"http://shop.test:443"}, "https", "shop.test", false},
		{[]string{"https://shop.test:80"}, "https", "shop.test", false},
		{[]string{"https://shop.test:8443"}, "https", "shop.test", false},
		{[]string{"http://shop.test:8080"}, "http", "shop.test:8081", false},
		{[]string{"https://shop.test/"}, "https", "shop.test", false},
		{[]string{"https://a@shop.test"}, "https", "shop.test", false},
		{[]string{"https://shop.test?a"}, "https", "shop.test", false},
		{[]string{"https://shop.test#a"}, "https", "shop.test", false},
		{[]string{"//shop.test"}, "https", "shop.test", false},
		{[]string{"null"}, "https", "shop.test", false},
		{[]string{""}, "https", "shop.test", false},
		{[]string{"https://shop.test", "https://shop.test"}, "https", "shop.test", false},
		{[]string{"https://shop.test", "https://evil.test"}, "https", "shop.test", false},
	} {
		x := &pipeline.Exchange{Scheme: test.scheme, Host: test.host, Header: http.Header{}}
		if test.origins != nil {
			x.Header["Origin"] = test.origins
		}
		if got := (&Server{}).mayAsk(x); got != test.may {
			t.Errorf("%q at %s://%s: %t", test.origins, test.scheme, test.host, got)
		}
	}
}

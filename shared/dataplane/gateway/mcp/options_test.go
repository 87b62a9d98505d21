package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// TestOptionLimits checks each option's limit, and that the problem names the option that exceeds it.
func TestOptionLimits(t *testing.T) {
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
			t.Errorf("New(%.60s) problems = %+v, want one at %q (none if empty)", raw, problems, want)
		}
	}
}

// TestOnlySameOriginIsAllowed checks that without a CORS policy, only pages
// with exactly the request's scheme, host and port may call the server.
func TestOnlySameOriginIsAllowed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		origins      []string
		scheme, host string
		wantAllowed  bool
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
		if got := (&Server{}).checkOrigin(x); got != test.wantAllowed {
			t.Errorf("checkOrigin(%q at %s://%s) = %t, want %t", test.origins, test.scheme, test.host, got, test.wantAllowed)
		}
	}
}

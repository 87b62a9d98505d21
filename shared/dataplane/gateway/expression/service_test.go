package expression

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestServiceAddressIsOnlyItsName checks that the address of a service has only a valid
// name before its path: no host, port, user or value of a request. Its path must be valid, too.
func TestServiceAddressIsOnlyItsName(t *testing.T) {
	for text, want := range map[string]string{
		"service:/stock/x":                     "begin the address",
		"service:stock":                        "begin the address",
		"services://stock/x":                   "begin the address",
		"service://":                           "write the name of a service",
		"service:///x":                         "write the name of a service",
		"service://ab/x":                       "write the name of a service",
		"service://x?y":                        "write the name of a service",
		"service://abcdefghijklmnopqrstuvwxy/": "write the name of a service",
		"service://Stock:80/x":                 "write the name of a service",
		"service://Stock:/x":                   "write the name of a service",
		"service://user@Stock/x":               "write the name of a service",
		"service://user:secret@Stock/x":        "write the name of a service",
		"service://stock.example/x":            "write the name of a service",
		"service://127.0.0.1/x":                "write the name of a service",
		"service://[::1]/x":                    "write the name of a service",
		"service://st_ck/x":                    "write the name of a service",
		"service://stöck/x":                    "write the name of a service",
		"service://st%6Fck/x":                  "write the name of a service",
		"service://stock /x":                   "write the name of a service",
		"service://stock\n/x":                  "write the name of a service",
		"service://stock\x00/x":                "write the name of a service",
		"service://../stock":                   "write the name of a service",
		"service://service://stock":            "write the name of a service",
		"service://stock\\x":                   `take "#" and "\"`,
		"service://stock#x":                    `take "#"`,
		"service://stock/../b":                 `take the "."`,
		"service://stock/%2e%2e/b":             `take the "."`,
		"service://stock/a%2F../b":             "beside an encoded slash",
		"service://${query.x}/y":               "write the host of the address or the name of the service",
		"service://${params.x}":                "write the host of the address or the name of the service",
		"service://stock${params.x}/y":         `put a "/"`,
		"service://stock-${query.x}":           `put a "/"`,
	} {
		if err := Check(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%s) = %v, want an error with %q", text, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("Check(%s) = %v, want an error without the password", text, err)
		}
	}
}

// TestVariableCanOnlyBeTheServiceName checks that a variable in place of a service's name
// must begin with a valid name, so that it can't lead to a host. It can add a path or a query.
func TestVariableCanOnlyBeTheServiceName(t *testing.T) {
	for _, value := range []string{
		"", "ab", "user:s3cret@stock", "stock:80", "stock.example", "st ck", "${query.x}",
		"${params.id}", "\x00stock", "@169.254.169.254",
	} {
		parsed, err := Parse("service://${env.STOCK}/x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsed.Compile(map[string]string{"STOCK": value}); err == nil ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Compile(STOCK=%q) error = %v, want an error without the value", value, err)
		}
	}
	x := exchange(t, "/x", project.OpenAPIPath, "/x?q=1")
	for value, want := range map[string]string{"stock/v1": "service://stock/v1/x", "stock?a=": "service://stock/?a=/x"} {
		u, err := compile(t, "service://${env.STOCK}/x", map[string]string{"STOCK": value}).Resolve(x, "", false)
		if err != nil || u.String() != want {
			t.Errorf("Resolve() with STOCK=%q = %v, %v, want %s", value, u, err, want)
		}
	}
}

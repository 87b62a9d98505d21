package origin_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/base/origin"
)

func TestValid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://pages.test": true, "http://localhost:9000": true, "HTTPS://Pages.Test": true, "http://[::1]:9000": true,
		"": false, "null": false, "pages.test": false, "//pages.test": false, "ftp://pages.test": false, "https://": false,
		"https://:443":        false,
		"https://pages.test/": false, "https://pages.test?": false, "https://pages.test#": false,
		"https://pages.test/?": false, "https://pages.test:": false,
		"https://pages.test?a": false, "https://pages.test#a": false, "https://a@pages.test": false,
		"https://@pages.test": false, "https://%70ages.test": false,
		"https:pages.test": false, " https://pages.test": false, "https://pages.test https://evil.test": false,
		"https://pages.test:https": false,
	} {
		if got := origin.Valid(text); got != want {
			t.Errorf("Valid(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, scheme, host string
		want               bool
	}{
		{"https://pages.test", "https", "pages.test", true},
		{"https://pages.test", "https", "Pages.test:443", true},
		{"http://pages.test:80", "HTTP", "pages.test", true},
		{"https://[::1]", "https", "[::1]:443", true},
		{"http://pages.test", "https", "pages.test", false},
		{"https://pages.test:8443", "https", "pages.test", false},
		{"https://pages.test", "https", "pages.test:80", false},
		{"https://pages.test.evil.test", "https", "pages.test", false},
		{"https://pages.test#", "https", "pages.test", false},
		{"null", "https", "pages.test", false},
	} {
		if got := origin.Same(test.text, test.scheme, test.host); got != test.want {
			t.Errorf("Same(%q, %s, %s) = %v, want %v", test.text, test.scheme, test.host, got, test.want)
		}
	}
}

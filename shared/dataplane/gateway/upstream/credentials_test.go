package upstream

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFieldsWithKeysAreRemoved checks that the fields of a header and the parameters of a query that contain a key are
// removed. It also checks that a key in a path is found.
func TestFieldsWithKeysAreRemoved(t *testing.T) {
	const key, customKey = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb", "a+key/of=one's-own"
	const keyWithSeparators = "a-key;with,separators"
	c := Credentials{Texts: []string{"other", customKey}}
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + key))
	h := http.Header{
		"Authorization": {"Bearer theirs", "Token " + key}, "X-Api-Key": {key},
		"Referer": {"https://x.test/?k=" + url.QueryEscape(key)},
		"X-Word":  {"Token" + key}, "X-Escaped-Twice": {"https://x.test/?u=%3Fk%253D" + key},
		"X-Own": {"=" + customKey}, "X-Escaped": {url.PathEscape(customKey)},
		"Cookie": {"a=1; k=" + key + "; b=2", "k=" + key}, "X-Kept": {"gwk_", "oth"}, // only the beginning of a key
	}
	c.Header(h)
	if diff := cmp.Diff(http.Header{"Cookie": {"a=1; b=2"}, "X-Kept": {"gwk_", "oth"}}, h); diff != "" {
		t.Errorf("Header() with keys in several fields (-want +got):\n%s", diff)
	}
	h = http.Header{
		"Via": {
			"1.1 " + key, "1.1 gatewright", "1.0 fred, 1.1 x (" + key + "), 1.1 gatewright", "1.1 x (" + customKey + ")",
		},
		"Cookie":          {"k=" + keyWithSeparators, "k=v"},
		"X-Forwarded-For": {key + ", 192.0.2.1, 192.0.2.2"}, "Forwarded": {"for=_" + key + ", for=192.0.2.2"},
		"X-List": {key + ", a"},
	}
	Credentials{Texts: []string{customKey, keyWithSeparators}}.Header(h)
	if diff := cmp.Diff(http.Header{
		"Via": {"1.1 gatewright", "1.0 fred, 1.1 gatewright"}, "Cookie": {"k=v"},
		"X-Forwarded-For": {"192.0.2.1, 192.0.2.2"}, "Forwarded": {"for=192.0.2.2"},
	}, h); diff != "" {
		t.Errorf("Header() with keys in lists (-want +got):\n%s", diff)
	}
	for value, kept := range map[string]bool{
		"Basic " + encoded: false, "basic  " + strings.TrimRight(encoded, "="): false,
		"Basic " + base64.StdEncoding.EncodeToString([]byte(customKey+":")):   false,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("user:password")): true, "Basic !": true, "Basic": true,
		"Digest " + encoded: true, "": true,
	} {
		h := http.Header{"Authorization": {value}}
		c.Header(h)
		if _, exists := h["Authorization"]; exists != kept {
			t.Errorf("Header(Authorization: %q): present = %t, want %t", value, exists, kept)
		}
	}
	for raw, want := range map[string]string{
		"": "", "a=b&c": "a=b&c", "a=b&k=" + key + "&c": "a=b&c", "k=" + key: "", "k=%67" + key[1:] + "&a=%zz": "a=%zz",
		"a=%zz&k=" + url.QueryEscape(customKey): "a=%zz", key + "=1&a": "a",
	} {
		if got := c.Query(raw); got != want {
			t.Errorf("Query(%q) = %q, want %q", raw, got, want)
		}
	}
	for path, want := range map[string]bool{
		"/a/" + key + "/b": true, "/v1/x" + key: true, "/" + customKey: true,
		"/a": false, "": false,
	} {
		if got := c.InPath(&url.URL{Path: path}); got != want {
			t.Errorf("InPath(%q) = %t, want %t", path, got, want)
		}
	}
}

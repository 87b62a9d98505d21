package credential_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// everyByteEncoded percent-encodes every byte of a text.
func everyByteEncoded(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func TestContainsFindsCredentialAnywhere(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	for _, prefix := range []string{credential.AccountKey, credential.ConsumerKey, credential.BucketToken} {
		key := credential.New(prefix, source)
		for name, text := range map[string]string{
			"only the key": key, "with a scheme": "Bearer " + key, "in a list": "Bearer x, Bearer " + key,
			"in quotes":     `key="` + key + `"`,
			"in an address": "https://shop.test/x?key=" + key + "&a=b", "in a cookie": "a=1; gwa_id=2; key=" + key,
			"an escaped underscore": strings.ReplaceAll(key, "_", "%5F"), "escaped": everyByteEncoded(key),
			"escaped, next to an invalid escape": "%zz%" + everyByteEncoded(key) + "%4",
			"a mistyped key":                     key[:len(key)-1] + "x",
			"a truncated key":                    key[:len(prefix)+1+16], "a longer key": key + "0",
			"after another word": "gw gwk_ gwk_x " + key, "after an underscore": "x_" + key,
			"after a letter": "Token" + key, "after a digit": "/v1/7" + key, "after a double escape": "a=%253D" + key,
			"after a prefix":           prefix + "_" + key,
			"after a part of a prefix": "gw" + key, "after a letter, escaped": "x" + everyByteEncoded(key),
			"between letters": "x" + key + "x", "after another key": key + key,
		} {
			if !credential.Contains(text) {
				t.Errorf("%s, %s: Contains() = false, want true", prefix, name)
			}
			if got := credential.Redact(text); strings.Contains(got, key[len(prefix)+1:len(prefix)+9]) ||
				!strings.Contains(got, "withheld") {
				t.Errorf("%s, %s: Redact() = %s, want \"withheld\" instead of the key", prefix, name, got)
			}
		}
	}
}

func TestContainsIgnoresOtherTexts(t *testing.T) {
	body := strings.Repeat("a", 32)
	for _, text := range []string{
		"", "gw", "gwk", "gwk_", "gwk_short", "gwa_id=1", "gwk_" + body[:15], "gwk-" + body, "GWK_" + body, "gwx_" + body,
		"xgwk_" + body,
		"%", "%g", "%zz", "100%25", "gwk_" + body[:8] + "-" + body, "gw%gwk_",
		"xgwk_" + body + "_12345678", "xgwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4c",
		"xgwx_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb",
	} {
		if credential.Contains(text) {
			t.Errorf("Contains(%q) = true, want false", text)
		}
		if got := credential.Redact(text); got != text {
			t.Errorf("Redact(%q) = %q, want no change", text, got)
		}
	}
}

func TestRedactReplacesOnlyCredentials(t *testing.T) {
	body := strings.Repeat("a", 32)
	for text, want := range map[string]string{
		"/x/gwk_" + body + "_12345678/y":                "/x/withheld/y",
		"gwa_" + body + ",gwk_" + body + ";gwb_" + body: "withheld,withheld;withheld",
		"gwk_" + body + " %2567wk_" + body:              "withheld withheld",
		"/a%20b/gwk%5F" + body:                          "/a b/withheld",
	} {
		if got := credential.Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzContains checks that Contains finds a credential within any text, and that Redact removes all of the credential.
func FuzzContains(f *testing.F) {
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	for _, around := range []string{"", " ", "x", "7", "_", "%", "gw", "gwk_", "gwk_%", "%67", "%253D", "\x00", "a=b&"} {
		f.Add(around, around)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + key + after
		if !credential.Contains(text) {
			t.Fatalf("Contains(%q) = false, want true", text)
		}
		if got := credential.Redact(text); credential.Contains(got) || strings.Contains(got, key) {
			t.Fatalf("Redact(%q) = %q, want no credential", text, got)
		}
	})
}

func TestEscapesNeverHideACredential(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	rapid.Check(t, func(t *rapid.T) {
		key := credential.New(credential.ConsumerKey, source)
		text := ""
		for _, c := range []byte(key) {
			if rapid.Bool().Draw(t, "escaped") {
				text += everyByteEncoded(string(c))
			} else {
				text += string(c)
			}
		}
		if !credential.Contains("x=" + text) {
			t.Fatalf("Contains(x=%s) = false, want true", text)
		}
		if decoded, err := url.PathUnescape(credential.Redact("x=" + text)); err != nil || credential.Contains(decoded) {
			t.Fatalf("Redact(x=%s) decoded = %s, %v, want no credential", text, decoded, err)
		}
	})
}

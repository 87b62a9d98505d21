package credential_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

// everyByteEncoded is a text as a careful client might write it into a URL.
func everyByteEncoded(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func TestCredentialIsSeenWhereverItStands(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	for _, prefix := range []string{credential.AccountKey, credential.ConsumerKey, credential.BucketToken} {
		key := credential.New(prefix, source)
		for name, text := range map[string]string{
			"alone": key, "with a scheme": "Bearer " + key, "in a list": "Bearer x, Bearer " + key, "in quotes": `key="` + key + `"`,
			"in an address": "https://shop.test/x?key=" + key + "&a=b", "in a cookie": "a=1; gwa_id=2; key=" + key,
			"an escaped underscore": strings.ReplaceAll(key, "_", "%5F"), "escaped": everyByteEncoded(key), "escaped beside a broken escape": "%zz%" + everyByteEncoded(key) + "%4",
			"mistyped": key[:len(key)-1] + "x", "cut off": key[:len(prefix)+1+16], "longer": key + "0", "after another word": "gw gwk_ gwk_x " + key, "after an underscore": "x_" + key,
			"behind a letter": "Token" + key, "behind a digit": "/v1/7" + key, "behind an escape of an escape": "a=%253D" + key, "behind a prefix": prefix + "_" + key,
			"behind a part of a prefix": "gw" + key, "behind a letter, escaped": "x" + everyByteEncoded(key), "amid letters": "x" + key + "x", "behind another": key + key,
		} {
			if !credential.Within(text) {
				t.Errorf("%s, %s: not seen", prefix, name)
			}
			if got := credential.Redact(text); strings.Contains(got, key[len(prefix)+1:len(prefix)+9]) || !strings.Contains(got, "withheld") {
				t.Errorf("%s, %s: left is %s", prefix, name, got)
			}
		}
	}
}

func TestOtherTextsAreNoCredentials(t *testing.T) {
	body := strings.Repeat("a", 32)
	for _, text := range []string{
		"", "gw", "gwk", "gwk_", "gwk_short", "gwa_id=1", "gwk_" + body[:15], "gwk-" + body, "GWK_" + body, "gwx_" + body, "xgwk_" + body,
		"%", "%g", "%zz", "100%25", "gwk_" + body[:8] + "-" + body, "gw%gwk_",
		"xgwk_" + body + "_12345678", "xgwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4c", "xgwx_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb",
	} {
		if credential.Within(text) {
			t.Errorf("%q is taken for a credential", text)
		}
		if got := credential.Redact(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestRedactTakesCredentialsAloneOut(t *testing.T) {
	body := strings.Repeat("a", 32)
	for text, want := range map[string]string{
		"/x/gwk_" + body + "_12345678/y":                "/x/withheld/y",
		"gwa_" + body + ",gwk_" + body + ";gwb_" + body: "withheld,withheld;withheld",
		"gwk_" + body + " %2567wk_" + body:              "withheld withheld",
		"/a%20b/gwk%5F" + body:                          "/a b/withheld",
	} {
		if got := credential.Redact(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

// FuzzWithin: whatever stands around a credential, it is seen, and nothing of it
// is left when it is redacted.
func FuzzWithin(f *testing.F) {
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	for _, around := range []string{"", " ", "x", "7", "_", "%", "gw", "gwk_", "gwk_%", "%67", "%253D", "\x00", "a=b&"} {
		f.Add(around, around)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + key + after
		if !credential.Within(text) {
			t.Fatalf("%q: not seen", text)
		}
		if got := credential.Redact(text); credential.Within(got) || strings.Contains(got, key) {
			t.Fatalf("%q: left is %q", text, got)
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
		if !credential.Within("x=" + text) {
			t.Fatalf("%s is not seen", text)
		}
		if decoded, err := url.PathUnescape(credential.Redact("x=" + text)); err != nil || credential.Within(decoded) {
			t.Fatalf("%s is left of %s", decoded, text)
		}
	})
}

package credential_test

import (
	"crypto/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

func TestCredentialHasTheFormThatScannersKnow(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	form := regexp.MustCompile(`^gwk_[0-9A-Za-z]{32}_[0-9a-f]{8}$`)
	for range 100 {
		text := credential.New(credential.ConsumerKey, source)
		if !form.MatchString(text) || !credential.WellFormed(credential.ConsumerKey, text) {
			t.Fatalf("%s", text)
		}
		if credential.WellFormed(credential.AccountKey, text) {
			t.Fatalf("%s passes for an account key", text)
		}
	}
}

// TestKnownCredential fixes the checksum: keys in use must stay valid.
func TestKnownCredential(t *testing.T) {
	const known = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_73ffd956"
	if !credential.WellFormed(credential.AccountKey, known) {
		t.Error("the checksum is computed in another way than before")
	}
}

func TestEveryTypoIsRefused(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	text := credential.New(credential.AccountKey, source)
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(text)-1).Draw(t, "position")
		b := rapid.Byte().Draw(t, "byte")
		if b == text[i] {
			return
		}
		if typo := text[:i] + string([]byte{b}) + text[i+1:]; credential.WellFormed(credential.AccountKey, typo) {
			t.Fatalf("%q passes for %q", typo, text)
		}
	})
	for _, other := range []string{"", "gwa", "gwa_", text[1:], text + "0", strings.ToUpper(text), " " + text, strings.Repeat("_", len(text))} {
		if credential.WellFormed(credential.AccountKey, other) {
			t.Errorf("%q is accepted", other)
		}
	}
}

func TestMaskShowsTheSuffixAlone(t *testing.T) {
	for text, want := range map[string]string{
		"gwk_0123456789abcdef0123456789abcdef_69ff2f90": "****69ff2f90",
		"0123456789abcdef": "****89abcdef",
		"0123456789abcde":  "****bcde",
		"abc":              "****abc",
	} {
		if got := credential.Masked(credential.Suffix(text)); got != want {
			t.Errorf("mask of %q: got %q, want %q", text, got, want)
		}
	}
}

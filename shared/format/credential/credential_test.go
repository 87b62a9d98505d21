package credential_test

import (
	"crypto/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
)

func TestNewMatchesScannerPattern(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	pattern := regexp.MustCompile(`^gwk_[0-9A-Za-z]{32}_[0-9a-f]{8}$`)
	for range 100 {
		text := credential.New(credential.ConsumerKey, source)
		if !pattern.MatchString(text) || !credential.WellFormed(credential.ConsumerKey, text) {
			t.Fatalf("New(ConsumerKey) = %s, want a well-formed credential that matches %s", text, pattern)
		}
		if credential.WellFormed(credential.AccountKey, text) {
			t.Fatalf("WellFormed(AccountKey, %s) = true, want false", text)
		}
	}
}

// TestWellFormedAcceptsFixedCredential checks that the checksum does not change: keys in use must stay valid.
func TestWellFormedAcceptsFixedCredential(t *testing.T) {
	const fixed = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_73ffd956"
	if !credential.WellFormed(credential.AccountKey, fixed) {
		t.Errorf("WellFormed(AccountKey, %s) = false, want true: the checksum must not change", fixed)
	}
}

func TestTyposAreNotWellFormed(t *testing.T) {
	source := ids.NewSource(rand.Reader, time.Now)
	text := credential.New(credential.AccountKey, source)
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(text)-1).Draw(t, "position")
		b := rapid.Byte().Draw(t, "byte")
		if b == text[i] {
			return
		}
		if typo := text[:i] + string([]byte{b}) + text[i+1:]; credential.WellFormed(credential.AccountKey, typo) {
			t.Fatalf("WellFormed(%q), a typo of %q, = true, want false", typo, text)
		}
	})
	for _, other := range []string{
		"", "gwa", "gwa_", text[1:], text + "0", strings.ToUpper(text), " " + text,
		strings.Repeat("_", len(text)),
	} {
		if credential.WellFormed(credential.AccountKey, other) {
			t.Errorf("WellFormed(AccountKey, %q) = true, want false", other)
		}
	}
}

func TestMaskedShowsOnlySuffix(t *testing.T) {
	for text, want := range map[string]string{
		"gwk_0123456789abcdef0123456789abcdef_69ff2f90": "****69ff2f90",
		"0123456789abcdef": "****89abcdef",
		"0123456789abcde":  "****bcde",
		"abc":              "****abc",
	} {
		if got := credential.Masked(credential.Suffix(text)); got != want {
			t.Errorf("Masked(Suffix(%q)) = %q, want %q", text, got, want)
		}
	}
}

package commands_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// TestKeyCheckIsOffline checks that `key check` sends no request, with and without a profile, and that its output never
// contains the key.
func TestKeyCheckIsOffline(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	key := credential.New(credential.ConsumerKey, ids.NewSource(storetest.Random(t), nil))
	for _, c := range []struct {
		name, text string
		code       exit.Code
		wantText   string
	}{
		{"consumer key", key + "\n", exit.OK, "consumer key"},
		{"account key", fx.key, exit.OK, "account key"},
		{
			"key with a wrong digit",
			key[:len(key)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(key, "0")], exit.Invalid, "mistyped",
		},
		{"truncated key", key[:len(key)-3], exit.Invalid, "mistyped"},
		{"no key", "of-my-own-making", exit.Invalid, "no checksum"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		writeFile(t, file, c.text)
		for _, args := range [][]string{{}, {"--file", file}, {"--output", "json"}} {
			got := fx.run(c.text, append([]string{"consumer", "key", "check"}, args...)...)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.wantText) || (got.out == "") != (c.code != exit.OK) ||
				strings.Contains(got.out+got.err, c.text[4:12]) {
				t.Errorf("%s: key check %v = %+v, want code %d and %q, without the key", c.name, args, got, c.code, c.wantText)
			}
		}
	}
	if len(fx.requests) > 0 {
		t.Errorf("key check sends the requests %q, want none", fx.requests)
	}
	delete(fx.env, profile.VarURL)
	delete(fx.env, profile.VarKey)
	if got := fx.run(key, "consumer", "key", "check"); got.code != exit.OK {
		t.Errorf("key check without a profile = %+v, want code 0", got)
	}
}

// TestSecretsAreMaskedWithoutReveal checks that secrets are masked in each format. Without --reveal, the command must
// not even request them.
func TestSecretsAreMaskedWithoutReveal(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-that-nobody-has-asked-for"
	for _, c := range []struct{ line, resp string }{
		{"bucket get partners", `{"name":"partners","token":"` + secret + `"}`},
		{"consumer key list --bucket partners --consumer ada", `{"data":[{"id":"key_1","key":"` + secret + `"}],"total":1}`},
		{"tunnel get tnl_1", `{"id":"tnl_1","name":"office","token":"` + secret + `"}`},
	} {
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, c.resp) })
		for _, format := range []string{"table", "json", "yaml"} {
			line := append(strings.Fields(c.line), "--output", format)
			got := fx.run("", line...)
			if got.code != exit.OK || strings.Contains(got.out+got.err, secret) || !strings.Contains(got.out, "****") ||
				strings.Contains(strings.Join(fx.requests, " "), "visible") {
				t.Errorf("gatewright %v = %+v after the requests %q, want code 0 and a masked secret that was not requested",
					line, got, fx.requests)
			}
		}
		if got := fx.run("", append(strings.Fields(c.line), "--reveal", "--output", "json")...); got.code != exit.OK ||
			!strings.Contains(got.out, secret) {
			t.Errorf("%s --reveal = %+v, want code 0 and the secret", c.line, got)
		}
	}
}

// fullDisk is an io.Writer that returns the error of a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestUnwrittenSecretIsReported checks the error if a new secret cannot be written. It must say what was created and
// what to do, and must contain no part of the secret.
func TestUnwrittenSecretIsReported(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-that-nobody-has-seen"
	for _, c := range []struct{ args, resp, wantText string }{
		{
			"consumer key create --bucket partners --consumer ada", `{"id":"key_1","key":"` + secret + `"}`,
			"gatewright consumer key get key_1 --bucket partners --consumer ada --reveal",
		},
		{"consumer key roll --bucket partners --consumer ada --expires-in 24h", `{"data":[{"id":"key_1","key":"` +
			secret + `"}]}`, "gatewright consumer key get key_1 --bucket partners --consumer ada --reveal"},
		{"consumer create ada --bucket partners --with-key", `{"name":"ada","apiKeys":[{"id":"key_1","key":"` +
			secret + `"}]}`, "gatewright consumer key get key_1 --bucket partners --consumer ada --reveal"},
		{
			"account-key create --label ci --scope all", `{"id":"akey_1","key":"` + secret + `"}`,
			"gatewright account-key delete akey_1",
		},
		{"tunnel create office", `{"tunnelId":"tnl_1","token":"` + secret + `"}`, "gatewright tunnel rotate-token tnl_1"},
	} {
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, c.resp) })
		args := strings.Fields(c.args)
		if got := fx.run("", append(args, "--jq", `error("x")`)...); got.code != exit.Failure || got.out != "" ||
			!strings.Contains(got.err, c.wantText) || strings.Contains(got.err, secret) {
			t.Errorf("%s with a failing query = %+v, want code %d and %q without the secret",
				c.args, got, exit.Failure, c.wantText)
		}
		var stderr bytes.Buffer
		app := &commands.App{In: os.Stdin, Out: fullDisk{}, Err: &stderr, Getenv: func(name string) string {
			return fx.env[name]
		}, Sleep: fx.sleep}
		if code := app.Run(t.Context(), args); code != exit.Failure || !strings.Contains(stderr.String(), c.wantText) ||
			strings.Contains(stderr.String(), secret) {
			t.Errorf("%s with a full disk = %d with %s, want code %d and %q without the secret",
				c.args, code, &stderr, exit.Failure, c.wantText)
		}
		fx.requests = nil
		if got := fx.run("", append(args, "--jq", ".data[")...); got.code != exit.Usage || len(fx.requests) > 0 {
			t.Errorf("%s with an invalid query = %+v after the requests %q, want code %d and no request",
				c.args, got, fx.requests, exit.Usage)
		}
		file := filepath.Join(t.TempDir(), "secret")
		if got := fx.run("", append(args, "--out", file, "--jq", `error("x")`)...); got.code != exit.Failure ||
			!strings.Contains(got.err, "the secret is in "+file) || strings.Contains(got.err, secret) {
			t.Errorf("%s --out with a failing query = %+v, want code %d and the path of the file, without the secret",
				c.args, got, exit.Failure)
		}
	}
}

// TestSecretFileReservesSpace checks that a new file has space for every secret. So a full disk is reported before the
// secret is created.
func TestSecretFileReservesSpace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := commands.NewSecretFile(path); err != nil {
		t.Fatal(err)
	}
	const maxSecret = 1024 // a tunnel's token has about 200 bytes
	if info, err := os.Stat(path); err != nil || info.Size() < maxSecret {
		t.Errorf("Stat(%s) = %+v, %v, want at least %d bytes", path, info, err, maxSecret)
	}
}

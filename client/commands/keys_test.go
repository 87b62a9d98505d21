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
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestKeyIsCheckedWithoutAskingAnybody, and is shown nowhere, right or wrong: with a profile at hand, and without one.
func TestKeyIsCheckedWithoutAskingAnybody(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	key := credential.New(credential.ConsumerKey, ids.NewSource(storetest.Random(t), nil))
	for _, c := range []struct {
		name, text string
		code       exit.Code
		says       string
	}{
		{"a consumer's", key + "\n", exit.OK, "consumer key"},
		{"an account's", l.key, exit.OK, "account key"},
		{"with a digit that is another", key[:len(key)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(key, "0")], exit.Invalid, "mistyped"},
		{"cut off", key[:len(key)-3], exit.Invalid, "mistyped"},
		{"something else", "of-my-own-making", exit.Invalid, "no checksum"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		write(t, file, c.text)
		for _, words := range [][]string{{}, {"--file", file}, {"--output", "json"}} {
			got := l.run(c.text, append([]string{"consumer", "key", "check"}, words...)...)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) || (got.out == "") != (c.code != exit.OK) || strings.Contains(got.out+got.err, c.text[4:12]) {
				t.Errorf("%s with %v: %+v", c.name, words, got)
			}
		}
	}
	if len(l.asked) > 0 {
		t.Errorf("it asks for %q", l.asked)
	}
	delete(l.env, profile.VarURL)
	delete(l.env, profile.VarKey)
	if got := l.run(key, "consumer", "key", "check"); got.code != exit.OK {
		t.Errorf("without a profile: %+v", got)
	}
}

// TestSecretsOfWhatIsReadAreMasked in each format, and are not even asked for: --reveal shows them.
func TestSecretsOfWhatIsReadAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-that-nobody-has-asked-for"
	for _, c := range []struct{ words, answer string }{
		{"bucket get partners", `{"name":"partners","token":"` + secret + `"}`},
		{"consumer key list --bucket partners --consumer ada", `{"data":[{"id":"key_1","key":"` + secret + `"}],"total":1}`},
		{"tunnel get tnl_1", `{"id":"tnl_1","name":"office","token":"` + secret + `"}`},
	} {
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, c.answer) })
		for _, format := range []string{"table", "json", "yaml"} {
			words := append(strings.Fields(c.words), "--output", format)
			got := l.run("", words...)
			if got.code != exit.OK || strings.Contains(got.out+got.err, secret) || !strings.Contains(got.out, "****") || strings.Contains(strings.Join(l.asked, " "), "visible") {
				t.Errorf("%v: %+v, asked %q", words, got, l.asked)
			}
		}
		if got := l.run("", append(strings.Fields(c.words), "--reveal", "--output", "json")...); got.code != exit.OK || !strings.Contains(got.out, secret) {
			t.Errorf("%s --reveal: %+v", c.words, got)
		}
	}
}

// full is a stdout whose disk is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestSecretThatNobodyHasSeenIsNamed: when it cannot be shown after it was made, the error says what was made and what to do about it, and has
// nothing of the secret.
func TestSecretThatNobodyHasSeenIsNamed(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-that-nobody-has-seen"
	for _, c := range []struct{ words, answer, says string }{
		{"consumer key create --bucket partners --consumer ada", `{"id":"key_1","key":"` + secret + `"}`, "gatewright consumer key get key_1 --bucket partners --consumer ada --reveal"},
		{"consumer key roll --bucket partners --consumer ada --expires-in 24h", `{"data":[{"id":"key_1","key":"` + secret + `"}]}`, "gatewright consumer key get key_1 --bucket partners --consumer ada --reveal"},
		{"consumer create ada --bucket partners --with-key", `{"name":"ada","apiKeys":[{"id":"key_1","key":"` + secret + `"}]}`, "gatewright consumer key get key_1 --bucket partners --consumer ada --reveal"},
		{"account-key create --label ci --scope all", `{"id":"akey_1","key":"` + secret + `"}`, "gatewright account-key delete akey_1"},
		{"tunnel create office", `{"tunnelId":"tnl_1","token":"` + secret + `"}`, "gatewright tunnel rotate-token tnl_1"},
	} {
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, c.answer) })
		words := strings.Fields(c.words)
		if got := l.run("", append(words, "--jq", `error("x")`)...); got.code != exit.Failure || got.out != "" || !strings.Contains(got.err, c.says) || strings.Contains(got.err, secret) {
			t.Errorf("%s with a query that fails: %+v", c.words, got)
		}
		var told bytes.Buffer
		app := &commands.App{In: os.Stdin, Out: full{}, Err: &told, Getenv: func(name string) string { return l.env[name] }, Sleep: l.sleep}
		if code := app.Run(t.Context(), words); code != exit.Failure || !strings.Contains(told.String(), c.says) || strings.Contains(told.String(), secret) {
			t.Errorf("%s onto a full disk ends with %d: %s", c.words, code, &told)
		}
		l.asked = nil
		if got := l.run("", append(words, "--jq", ".data[")...); got.code != exit.Usage || len(l.asked) > 0 {
			t.Errorf("%s with a query that is none: %+v, asks %q", c.words, got, l.asked)
		}
		file := filepath.Join(t.TempDir(), "secret")
		if got := l.run("", append(words, "--out", file, "--jq", `error("x")`)...); got.code != exit.Failure || !strings.Contains(got.err, "the secret is in "+file) || strings.Contains(got.err, secret) {
			t.Errorf("%s into a file, with a query that fails: %+v", c.words, got)
		}
	}
}

// TestSecretHasItsRoomBeforeItIsMade: a full disk is told before there is a secret that nobody would see.
func TestSecretHasItsRoomBeforeItIsMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := commands.NewSecretFile(path); err != nil {
		t.Fatal(err)
	}
	const longest = 1024 // that of a tunnel has some 200 bytes
	if info, err := os.Stat(path); err != nil || info.Size() < longest {
		t.Errorf("there is %+v, %v", info, err)
	}
}

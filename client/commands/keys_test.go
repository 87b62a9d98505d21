package commands_test

import (
	"path/filepath"
	"strings"
	"testing"

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

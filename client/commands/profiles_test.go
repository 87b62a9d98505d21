package commands_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
)

// TestLoginKeepsWhatOthersHaveKept has another login be done while the installation looks at the key.
func TestLoginKeepsWhatOthersHaveKept(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"other": {URL: "https://a.example.com"}}}).Save(l.profiles); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"sub":"k","account":"acme"}`)
	}))
	t.Cleanup(server.Close)
	if got := l.run(l.key, "login", server.URL, "--name", "mine", "--key-stdin"); got.code != exit.OK {
		t.Fatalf("%+v", got)
	}
	kept, err := profile.Load(l.profiles)
	if err != nil || !slices.Equal(kept.Names(), []string{"mine", "other"}) || kept.Current != "mine" {
		t.Errorf("it keeps %v, %v", kept, err)
	}
}

func TestProfilesWrittenByHandShowNoPassword(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	delete(l.env, profile.VarURL)
	delete(l.env, profile.VarKey)
	write(t, l.profiles, `{"current":"hand","profiles":{"hand":{"url":"https://ada:s3cret@api.example.com","key":"`+l.key+`"}}}`)
	for _, words := range []string{"profile list", "profile list --output json", "profile use hand", "whoami", "logout"} {
		got := l.run("", strings.Fields(words)...)
		if strings.Contains(got.out+got.err, "s3cret") || strings.HasPrefix(words, "profile") && !strings.Contains(got.out, "https://****@api.example.com") {
			t.Errorf("%s: %+v", words, got)
		}
		if words == "whoami" && (got.code != exit.Usage || !strings.Contains(got.err, `the profile "hand"`)) {
			t.Errorf("it does not say which address is wrong: %+v", got)
		}
	}
}

// TestProfilesThatOthersReadAreRefused by every command, with a key of the environment too: whoever has them open has what they hold.
func TestProfilesThatOthersReadAreRefused(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Skip("modes of files are other ones there")
	}
	l := newLine(t)
	write(t, l.profiles, `{"profiles":{}}`)
	if err := os.Chmod(l.profiles, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"whoami"}, {"profile", "list"}, {"bucket", "list"}} {
		if got := l.run("", words...); got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, "chmod 600") || len(l.asked) > 0 {
			t.Errorf("%v: %+v, asked %q", words, got, l.asked)
		}
	}
}

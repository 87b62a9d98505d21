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

// TestConcurrentLoginsKeepBothProfiles saves another profile while the installation verifies the key of a login. Both
// profiles must be stored.
func TestConcurrentLoginsKeepBothProfiles(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"other": {URL: "https://a.example.com"}}}).Save(
			fx.profiles); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"sub":"k","account":"acme"}`)
	}))
	t.Cleanup(server.Close)
	if got := fx.run(fx.key, "login", server.URL, "--name", "mine", "--key-stdin"); got.code != exit.OK {
		t.Fatalf("login --name mine = %+v, want code 0", got)
	}
	saved, err := profile.Load(fx.profiles)
	if err != nil || !slices.Equal(saved.Names(), []string{"mine", "other"}) || saved.Current != "mine" {
		t.Errorf("Load() after two logins = %v, %v, want the profiles mine and other, and mine as current", saved, err)
	}
}

func TestPasswordInProfileURLIsMasked(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	delete(fx.env, profile.VarURL)
	delete(fx.env, profile.VarKey)
	writeFile(t, fx.profiles, `{"current":"hand","profiles":{"hand":{"url":"https://ada:s3cret@api.example.com","key":"`+
		fx.key+`"}}}`)
	for _, line := range []string{"profile list", "profile list --output json", "profile use hand", "whoami", "logout"} {
		got := fx.run("", strings.Fields(line)...)
		if strings.Contains(got.out+got.err, "s3cret") || strings.HasPrefix(line, "profile") &&
			!strings.Contains(got.out, "https://****@api.example.com") {
			t.Errorf("%s = %+v, want the address without its password", line, got)
		}
		if line == "whoami" && (got.code != exit.Usage || !strings.Contains(got.err, `the profile "hand"`)) {
			t.Errorf("whoami with a password in the address = %+v, want code %d and the profile's name", got, exit.Usage)
		}
	}
}

// TestReadableProfilesAreRefused checks that commands refuse profiles that other users can read, even if the key is in
// the environment.
func TestReadableProfilesAreRefused(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Skip("on this system, the mode of a file does not restrict other users")
	}
	fx := newFixture(t)
	writeFile(t, fx.profiles, `{"profiles":{}}`)
	if err := os.Chmod(fx.profiles, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"whoami"}, {"profile", "list"}, {"bucket", "list"}} {
		if got := fx.run("", args...); got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, "chmod 600") ||
			len(fx.requests) > 0 {
			t.Errorf("%v with profiles that others can read = %+v after the requests %q, want code %d and chmod 600 after none",
				args, got, fx.requests, exit.Usage)
		}
	}
}

package profile_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/store/storetest"

	"github.com/gatewright/gatewright/shared/ids"
)

// made is a key of an account, or of a consumer.
func made(t *testing.T, prefix string) string {
	t.Helper()
	return credential.New(prefix, ids.NewSource(storetest.Random(t), nil))
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestAddressesThatAKeyMayGoTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://API.example.com": "https://api.example.com", "https://api.example.com:8443/": "https://api.example.com:8443",
		"http://127.0.0.1:9000": "http://127.0.0.1:9000", "http://[::1]:9000": "http://[::1]:9000", "http://localhost": "http://localhost", "http://api.localhost:1": "http://api.localhost:1",
		"http://api.example.com": "", "http://127.0.0.1.example.com": "", "http://localhost.example.com": "", "http://10.0.0.1": "", "https://u:p@api.example.com": "",
		"https://x.execute-api.eu-central-1.amazonaws.com/prod/": "https://x.execute-api.eu-central-1.amazonaws.com/prod", "http://127.0.0.1:1/_aws/execute-api/x/dev": "http://127.0.0.1:1/_aws/execute-api/x/dev",
		"https://api.example.com/a/../b": "", "https://api.example.com/a//b": "", "https://api.example.com/a%2Fb": "", "https://api.example.com/%2e%2e": "", "https://api.example.com/.": "", "https://api.example.com//": "",
		"https://api.example.com?x": "", "https://api.example.com?": "", "https://api.example.com#x": "", "ftp://api.example.com": "", "api.example.com": "", "": "", "https://": "",
	} {
		u, err := profile.Origin(text)
		switch {
		case want == "" && (err == nil || exit.Of(err) != exit.Usage || strings.Contains(err.Error(), "u:p")):
			t.Errorf("%s is taken: %v, %v", text, u, err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%s is %v, %v, want %s", text, u, err, want)
		}
	}
}

// TestAddressesWrittenByHandShowNoSecret: one that login would have refused may have a password or a token.
func TestAddressesWrittenByHandShowNoSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://api.example.com/prod": "https://api.example.com/prod", "http://10.0.0.1": "http://10.0.0.1",
		"https://ada:s3cret@api.example.com/prod": "https://****@api.example.com/prod", "https://s3cret@api.example.com": "https://****@api.example.com",
		"https://api.example.com/?token=s3cret": "https://api.example.com/?****", "https://api.example.com#s3cret": "https://api.example.com?****",
		"ada:s3cret@api.example.com": "****", "https://ada:s3cret%@api.example.com": "****", "": "****",
	} {
		if got := (profile.Profile{URL: text}).Address(); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

func TestWhatIsTypedGoesBeforeTheEnvironmentAndThatBeforeTheProfile(t *testing.T) {
	t.Parallel()
	source := ids.NewSource(storetest.Random(t), nil) // of one, so that they differ
	own, other := credential.New(credential.AccountKey, source), credential.New(credential.AccountKey, source)
	all := &profile.Profiles{Current: "a", Profiles: map[string]profile.Profile{
		"a": {URL: "https://a.example.com", Account: "acme", Key: own},
		"b": {URL: "https://b.example.com", Account: "bob"},
		"c": {URL: "https://c.localhost", Key: own},
	}}
	for _, c := range []struct {
		name              string
		typed             profile.Typed
		env               []string
		url, account, key string
		refused           string // what the error says
	}{
		{name: "the current profile", url: "https://a.example.com", account: "acme", key: own},
		{name: "the environment's profile", env: []string{profile.VarName, "b"}, url: "https://b.example.com", account: "bob"},
		{name: "a typed profile", typed: profile.Typed{Profile: "a", Account: "x"}, env: []string{profile.VarName, "b", profile.VarAccount, "y"}, url: "https://a.example.com", account: "x", key: own},
		{name: "the same origin", typed: profile.Typed{URL: "https://A.example.com/"}, url: "https://a.example.com", account: "acme", key: own},
		{name: "another origin", typed: profile.Typed{URL: "https://evil.example.com"}, refused: "goes nowhere else"},
		{name: "another port", env: []string{profile.VarURL, "https://a.example.com:444"}, refused: "goes nowhere else"},
		{name: "another path", typed: profile.Typed{URL: "https://a.example.com/other"}, refused: "goes nowhere else"},
		{name: "another scheme", typed: profile.Typed{Profile: "c", URL: "http://c.localhost"}, refused: "goes nowhere else"},
		{name: "another origin with a key of its own", typed: profile.Typed{URL: "https://c.example.com"}, env: []string{profile.VarKey, " " + other + "\n"}, url: "https://c.example.com", account: "acme", key: other},
		{name: "the same origin with a key of its own", env: []string{profile.VarKey, other}, url: "https://a.example.com", account: "acme", key: other},
		{name: "no such profile", typed: profile.Typed{Profile: "d"}, refused: "there is no profile"},
		{name: "two keys", env: []string{profile.VarKey, other, profile.VarKeyFile, "x"}, refused: "two keys"},
	} {
		access, err := all.Decide(c.typed, environment(c.env...))
		if c.refused != "" {
			if err == nil || exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || access.Origin.String() != c.url || access.Account != c.account || access.HasKey() != (c.key != "") {
			t.Errorf("%s: %v %s, %v", c.name, access.Origin, access.Account, err)
			continue
		}
		from := map[string]string{own: "the profile", other: profile.VarKey}[c.key]
		if access.KeyFrom != from {
			t.Errorf("%s: the key is said to be from %q, not %q", c.name, access.KeyFrom, from)
		}
		if key, err := access.Key(t.Context()); c.key != "" && (err != nil || key != c.key) {
			t.Errorf("%s: the key is %q, %v", c.name, key, err)
		}
	}
	if _, err := (&profile.Profiles{}).Decide(profile.Typed{}, environment()); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "gatewright login") {
		t.Errorf("without a profile: %v", err)
	}
}

// TestOnlyAccountKeysAreSent has other secrets stand where a key does: those that a server's variables of the same names hold too.
func TestOnlyAccountKeysAreSent(t *testing.T) {
	t.Parallel()
	key := made(t, credential.AccountKey)
	for _, c := range []struct{ text, says string }{
		{key, ""},
		{"\n " + key + " \n", ""},
		{"", "is empty"},
		{key[:20], "cut off"},
		{key[:len(key)-1] + "x", "checksum"},
		{made(t, credential.ConsumerKey), "of a consumer"},
		{"c2VjcmV0IHJvb3Qga2V5IG9mIGEgc2VydmVyLCAzMiBieXRlcw==", "sent nowhere"},
		{key + " " + key, "cut off"},
	} {
		got, err := profile.CheckKey("the file", c.text)
		switch {
		case c.says == "" && (err != nil || got != key):
			t.Errorf("%q: %v", c.text, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || len(c.text) > 8 && strings.Contains(err.Error(), c.text[4:])):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

func TestKeysComeFromFilesAndCommands(t *testing.T) {
	t.Parallel()
	key, dir := made(t, credential.AccountKey), t.TempDir()
	private, shared, link := filepath.Join(dir, "private"), filepath.Join(dir, "shared"), filepath.Join(dir, "link")
	for path, mode := range map[string]os.FileMode{private: 0o600, shared: 0o644} {
		if err := os.WriteFile(path, []byte(key+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	windows := runtime.GOOS == "windows"
	if err := os.Symlink(shared, link); err != nil && !windows {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    profile.Profile
		says string
		unix bool
	}{
		{p: profile.Profile{KeyFile: private}},
		{p: profile.Profile{KeyFile: shared}, says: "chmod 600", unix: true},
		{p: profile.Profile{KeyFile: link}, says: "chmod 600", unix: true},
		{p: profile.Profile{KeyFile: filepath.Join(dir, "gone")}, says: "gone"},
		{p: profile.Profile{KeyFile: dir}, says: "folder", unix: true},
		{p: profile.Profile{KeyFile: "/dev/zero"}, says: "more than", unix: true},
		{p: profile.Profile{KeyCommand: "cat '" + private + "'; echo more"}, unix: true},
		{p: profile.Profile{KeyCommand: "exit 3"}, says: "prints no key"},
		{p: profile.Profile{KeyCommand: "cat '" + private + "'; exit 3"}, says: "prints no key", unix: true},
		{p: profile.Profile{KeyCommand: "echo something"}, says: "sent nowhere"},
	} {
		if c.unix && windows {
			continue
		}
		c.p.URL = "https://a.example.com"
		access, err := (&profile.Profiles{Current: "a", Profiles: map[string]profile.Profile{"a": c.p}}).Decide(profile.Typed{}, environment())
		if err != nil {
			t.Fatal(err)
		}
		got, err := access.Key(t.Context())
		switch {
		case c.says == "" && (err != nil || got != key):
			t.Errorf("%+v: %q, %v", c.p, got, err)
		case c.says != "" && (err == nil || exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), key)):
			t.Errorf("%+v: %q, %v", c.p, got, err)
		}
	}
}

func TestProfilesAreTheUsersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "profiles.json")
	all, err := profile.Load(path)
	if err != nil || len(all.Profiles) != 0 {
		t.Fatalf("where there is no file: %v, %v", all, err)
	}
	all.Current, all.Profiles["a"] = "a", profile.Profile{URL: "https://a.example.com", Key: "x"}
	for range 2 {
		if err := all.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	again, err := profile.Load(path)
	if err != nil || again.Profiles["a"] != all.Profiles["a"] || again.Current != "a" {
		t.Fatalf("they are read as %v, %v", again, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".gatewright-*")); err != nil || len(left) > 0 {
		t.Errorf("beside them is left %v, %v", left, err)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("others may read them: %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := profile.Load(path); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file that others can read: %v", err)
		}
	}
	for _, text := range []string{"{", `{"profiles":{"a":{"uri":"x"}}}`, "[]", "\x00", `{"profiles":{}} {"profiles":{}}`, "{}\n>>>>>>> theirs\n{}"} {
		bad := filepath.Join(t.TempDir(), "profiles.json")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := profile.Load(bad); exit.Of(err) != exit.Usage {
			t.Errorf("%q is read: %v", text, err)
		}
	}
}

// TestProfilesAreWrittenWholeOrNotAtAll has somebody read them while they are written: they have what was there before, which a writer that
// is killed half way leaves too.
func TestProfilesAreWrittenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open is not replaced there")
	}
	path := filepath.Join(t.TempDir(), "profiles.json")
	all := &profile.Profiles{Profiles: map[string]profile.Profile{"a": {URL: "https://a.example.com", Key: "x"}}}
	if err := all.Save(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	all.Profiles = map[string]profile.Profile{}
	if err := all.Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, before) {
		t.Errorf("they are read as %q, %v", got, err)
	}
}

// TestLinkedProfilesAreOneFile has the profiles be a link, as those who keep their settings in a repository have it: a key that is forgotten is so where it is.
func TestLinkedProfilesAreOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "profiles.json")
	if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"a": {URL: "https://a.example.com", Key: "x"}}}).Save(target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"a": {URL: "https://a.example.com"}}}).Save(link); err != nil {
		t.Fatal(err)
	}
	kept, err := profile.Load(target)
	if err != nil || kept.Profiles["a"].Key != "" {
		t.Errorf("the key stays: %v, %v", kept, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
}

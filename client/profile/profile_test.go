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
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"

	"github.com/gatewright/gatewright/shared/base/ids"
)

// newKey returns a key of an account or of a consumer.
func newKey(t *testing.T, prefix string) string {
	t.Helper()
	return credential.New(prefix, ids.NewSource(storetest.Random(t), nil))
}

func newEnv(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestOriginAcceptsOnlySafeAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://API.example.com": "https://api.example.com", "https://api.example.com:8443/": "https://api.example.com:8443",
		"http://127.0.0.1:9000": "http://127.0.0.1:9000", "http://[::1]:9000": "http://[::1]:9000",
		"http://localhost": "http://localhost", "http://api.localhost:1": "http://api.localhost:1",
		"http://api.example.com": "", "http://127.0.0.1.example.com": "", "http://localhost.example.com": "",
		"http://10.0.0.1": "", "https://u:p@api.example.com": "",
		"https://x.execute-api.eu-central-1.amazonaws.com/prod/": "https://x.execute-api.eu-central-1.amazonaws.com/prod",
		"http://127.0.0.1:1/_aws/execute-api/x/dev":              "http://127.0.0.1:1/_aws/execute-api/x/dev",
		"https://api.example.com/a/../b":                         "", "https://api.example.com/a//b": "",
		"https://api.example.com/a%2Fb":  "",
		"https://api.example.com/%2e%2e": "", "https://api.example.com/.": "", "https://api.example.com//": "",
		"https://api.example.com?x": "", "https://api.example.com?": "", "https://api.example.com#x": "",
		"ftp://api.example.com": "", "api.example.com": "", "": "", "https://": "",
	} {
		u, err := profile.ParseOrigin(text)
		switch {
		case want == "" && (err == nil || exit.CodeOf(err) != exit.Usage || strings.Contains(err.Error(), "u:p")):
			t.Errorf("ParseOrigin(%s) = %v, %v, want code %d without the password", text, u, err, exit.Usage)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("ParseOrigin(%s) = %v, %v, want %s", text, u, err, want)
		}
	}
}

// TestAddressMasksSecrets tests addresses that a user has written by hand and that login would refuse: they may contain
// a password or a token.
func TestAddressMasksSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://api.example.com/prod": "https://api.example.com/prod", "http://10.0.0.1": "http://10.0.0.1",
		"https://ada:s3cret@api.example.com/prod": "https://****@api.example.com/prod",
		"https://s3cret@api.example.com":          "https://****@api.example.com",
		"https://api.example.com/?token=s3cret":   "https://api.example.com/?****",
		"https://api.example.com#s3cret":          "https://api.example.com?****",
		"ada:s3cret@api.example.com":              "****", "https://ada:s3cret%@api.example.com": "****", "": "****",
	} {
		if got := (profile.Profile{URL: text}).Address(); got != want {
			t.Errorf("Address() of %s = %s, want %s", text, got, want)
		}
	}
}

func TestResolvePrecedence(t *testing.T) {
	t.Parallel()
	source := ids.NewSource(storetest.Random(t), nil) // a common source, so that the keys differ
	profileKey, otherKey := credential.New(credential.AccountKey, source), credential.New(credential.AccountKey, source)
	all := &profile.Profiles{Current: "a", Profiles: map[string]profile.Profile{
		"a": {URL: "https://a.example.com", Account: "acme", Key: profileKey},
		"b": {URL: "https://b.example.com", Account: "bob"},
		"c": {URL: "https://c.localhost", Key: profileKey},
	}}
	for _, c := range []struct {
		name              string
		overrides         profile.Overrides
		env               []string
		url, account, key string
		wantErr           string // a part of the error's text
	}{
		{name: "the current profile", url: "https://a.example.com", account: "acme", key: profileKey},
		{
			name: "profile of the environment", env: []string{profile.VarProfile, "b"}, url: "https://b.example.com",
			account: "bob",
		},
		{
			name: "profile of a flag", overrides: profile.Overrides{Profile: "a", Account: "x"},
			env: []string{profile.VarProfile, "b", profile.VarAccount, "y"}, url: "https://a.example.com", account: "x",
			key: profileKey,
		},
		{
			name: "the same origin", overrides: profile.Overrides{URL: "https://A.example.com/"}, url: "https://a.example.com",
			account: "acme", key: profileKey,
		},
		{name: "another origin", overrides: profile.Overrides{URL: "https://evil.example.com"}, wantErr: "goes nowhere else"},
		{name: "another port", env: []string{profile.VarURL, "https://a.example.com:444"}, wantErr: "goes nowhere else"},
		{
			name: "another path", overrides: profile.Overrides{URL: "https://a.example.com/other"},
			wantErr: "goes nowhere else",
		},
		{
			name: "another scheme", overrides: profile.Overrides{Profile: "c", URL: "http://c.localhost"},
			wantErr: "goes nowhere else",
		},
		{
			name: "another origin with its key", overrides: profile.Overrides{URL: "https://c.example.com"},
			env: []string{profile.VarKey, " " + otherKey + "\n"}, url: "https://c.example.com", account: "acme", key: otherKey,
		},
		{
			name: "the same origin with another key", env: []string{profile.VarKey, otherKey}, url: "https://a.example.com",
			account: "acme", key: otherKey,
		},
		{name: "unknown profile", overrides: profile.Overrides{Profile: "d"}, wantErr: "there is no profile"},
		{name: "two keys", env: []string{profile.VarKey, otherKey, profile.VarKeyFile, "x"}, wantErr: "two keys"},
	} {
		access, err := all.Resolve(c.overrides, newEnv(c.env...))
		if c.wantErr != "" {
			if err == nil || exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s: Resolve() error = %v, want code %d and %q", c.name, err, exit.Usage, c.wantErr)
			}
			continue
		}
		if err != nil || access.Origin.String() != c.url || access.Account != c.account || access.HasKey() != (c.key != "") {
			t.Errorf("%s: Resolve() = %v %s with a key: %t, %v, want %s %s with a key: %t",
				c.name, access.Origin, access.Account, access.HasKey(), err, c.url, c.account, c.key != "")
			continue
		}
		wantSource := map[string]string{profileKey: "the profile", otherKey: profile.VarKey}[c.key]
		if access.KeySource != wantSource {
			t.Errorf("%s: KeySource = %q, want %q", c.name, access.KeySource, wantSource)
		}
		if key, err := access.Key(t.Context()); c.key != "" && (err != nil || key != c.key) {
			t.Errorf("%s: Key() = %q, %v, want %q", c.name, key, err, c.key)
		}
	}
	if _, err := (&profile.Profiles{}).Resolve(profile.Overrides{}, newEnv()); exit.CodeOf(err) != exit.Usage ||
		!strings.Contains(err.Error(), "gatewright login") {
		t.Errorf("Resolve() without a profile: error = %v, want code %d and \"gatewright login\"", err, exit.Usage)
	}
}

// TestCheckKeyAcceptsOnlyAccountKeys checks that CheckKey refuses other secrets. On a server, the same environment
// variables may name a file with another secret. The error must not contain the secret.
func TestCheckKeyAcceptsOnlyAccountKeys(t *testing.T) {
	t.Parallel()
	key := newKey(t, credential.AccountKey)
	for _, c := range []struct{ text, wantErr string }{
		{key, ""},
		{"\n " + key + " \n", ""},
		{"", "is empty"},
		{key[:20], "cut off"},
		{key[:len(key)-1] + "x", "checksum"},
		{newKey(t, credential.ConsumerKey), "of a consumer"},
		{"c2VjcmV0IHJvb3Qga2V5IG9mIGEgc2VydmVyLCAzMiBieXRlcw==", "sent nowhere"},
		{key + " " + key, "cut off"},
	} {
		got, err := profile.CheckKey("the file", c.text)
		switch {
		case c.wantErr == "" && (err != nil || got != key):
			t.Errorf("CheckKey(%q) = %q, %v, want %q", c.text, got, err, key)
		case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr) || len(c.text) > 8 &&
			strings.Contains(err.Error(), c.text[4:])):
			t.Errorf("CheckKey(%q) error = %v, want %q without the key", c.text, err, c.wantErr)
		}
	}
}

func TestKeySources(t *testing.T) {
	t.Parallel()
	key, dir := newKey(t, credential.AccountKey), t.TempDir()
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
		p       profile.Profile
		wantErr string
		unix    bool
	}{
		{p: profile.Profile{KeyFile: private}},
		{p: profile.Profile{KeyFile: shared}, wantErr: "chmod 600", unix: true},
		{p: profile.Profile{KeyFile: link}, wantErr: "chmod 600", unix: true},
		{p: profile.Profile{KeyFile: filepath.Join(dir, "gone")}, wantErr: "gone"},
		{p: profile.Profile{KeyFile: dir}, wantErr: "folder", unix: true},
		{p: profile.Profile{KeyFile: "/dev/zero"}, wantErr: "more than", unix: true},
		{p: profile.Profile{KeyCommand: "cat '" + private + "'; echo more"}, unix: true},
		{p: profile.Profile{KeyCommand: "exit 3"}, wantErr: "prints no key"},
		{p: profile.Profile{KeyCommand: "cat '" + private + "'; exit 3"}, wantErr: "prints no key", unix: true},
		{p: profile.Profile{KeyCommand: "echo something"}, wantErr: "sent nowhere"},
	} {
		if c.unix && windows {
			continue
		}
		c.p.URL = "https://a.example.com"
		access, err := (&profile.Profiles{Current: "a", Profiles: map[string]profile.Profile{"a": c.p}}).Resolve(
			profile.Overrides{}, newEnv())
		if err != nil {
			t.Fatal(err)
		}
		got, err := access.Key(t.Context())
		switch {
		case c.wantErr == "" && (err != nil || got != key):
			t.Errorf("Key() of %+v = %q, %v, want %q", c.p, got, err, key)
		case c.wantErr != "" && (err == nil || exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.wantErr) ||
			strings.Contains(err.Error(), key)):
			t.Errorf("Key() of %+v = %q, %v, want code %d and %q without the key", c.p, got, err, exit.Usage, c.wantErr)
		}
	}
}

func TestProfilesFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "profiles.json")
	all, err := profile.Load(path)
	if err != nil || len(all.Profiles) != 0 {
		t.Fatalf("Load() of a missing file = %v, %v, want no profiles", all, err)
	}
	all.Current, all.Profiles["a"] = "a", profile.Profile{URL: "https://a.example.com", Key: "x"}
	for range 2 {
		if err := all.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := profile.Load(path)
	if err != nil || loaded.Profiles["a"] != all.Profiles["a"] || loaded.Current != "a" {
		t.Fatalf("Load() = %v, %v, want the saved profile a as the current one", loaded, err)
	}
	if remaining, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".gatewright-*")); err != nil ||
		len(remaining) > 0 {
		t.Errorf("Save() leaves the files %v, %v, want none", remaining, err)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the profiles = %v, %v, want 0600", info.Mode(), err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := profile.Load(path); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("Load() of a file that others can read: error = %v, want code %d and chmod 600", err, exit.Usage)
		}
	}
	for _, text := range []string{
		"{", `{"profiles":{"a":{"uri":"x"}}}`, "[]", "\x00", `{"profiles":{}} {"profiles":{}}`,
		"{}\n>>>>>>> theirs\n{}",
	} {
		bad := filepath.Join(t.TempDir(), "profiles.json")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := profile.Load(bad); exit.CodeOf(err) != exit.Usage {
			t.Errorf("Load() of %q: error = %v, want code %d", text, err, exit.Usage)
		}
	}
}

// TestSaveIsAtomic checks that Save replaces the file instead of changing its content: a reader that has opened the old
// file must read the old content.
func TestSaveIsAtomic(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot replace a file that is open")
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
		t.Errorf("a reader of the old file gets %q, %v after Save(), want %q", got, err, before)
	}
}

// TestSaveFollowsSymlink checks that Save writes to the target of a symbolic link, such as a link into a repository
// with settings. A key that is removed must be removed from the target, and the link must stay.
func TestSaveFollowsSymlink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "profiles.json")
	if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"a": {
		URL: "https://a.example.com",
		Key: "x",
	}}}).Save(target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if err := (&profile.Profiles{Profiles: map[string]profile.Profile{"a": {URL: "https://a.example.com"}}}).Save(
		link); err != nil {
		t.Fatal(err)
	}
	loaded, err := profile.Load(target)
	if err != nil || loaded.Profiles["a"].Key != "" {
		t.Errorf("Load() of the link's target = %v, %v, want a profile without a key", loaded, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("Lstat() after Save() = %v, %v, want a link", info, err)
	}
}

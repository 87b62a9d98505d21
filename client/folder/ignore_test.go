package folder

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	names = []string{"a", "b", "ab", "a.js", "b.log", "a b", "é", "[a]", "#x", "!y", "-", "*", "a ", "]", "A", "foo", ".x", "node_modules"}
	parts = []string{
		"a", "b", "ab", "*", "**", "?", "[ab]", "[!a]", "[^a]", "[[:alpha:]]", "[a-c]*", "*.js", "*.log", "a b", "é", `\[a\]`, `\#x`, `\!y`, "foo", "a*", "**a", "a**b", "A", ".*", "[]-]",
		`a\`, `\a`, "é*", "node_modules", `[\]a]`, `*\ `, "{a,b}", "[a-", "***", "****", "[]a]", "[!]]", "[!a-z]", "[[:foo:]]", "[\\\\]", "[é]", "??", "[!!]", "[--0]", "[a-\\z]",
	}
)

// pattern is a line of an ignore file. A class of characters with a slash in it, which is unlike git,
// comes of no opening that is left open before a slash; "**" stands in front of other characters alone.
func pattern(r *rapid.T) string {
	line := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 3).Draw(r, "parts"), "/")
	if strings.Contains(line, "[a-/") {
		line = strings.ReplaceAll(line, "[a-/", "a/")
	}
	return rapid.SampledFrom([]string{"", "", "/", "!", "!", "!/", "#", " ", "!!"}).Draw(r, "before") + line + rapid.SampledFrom([]string{"", "", "", "/", "  ", "\t", "\r", "/ ", `\ `, ` \  `, "\r\r", "/\r", "/***", "//", `\\`}).Draw(r, "after")
}

// tree are files and folders by their paths, true for folders.
func tree(r *rapid.T) map[string]bool {
	out := map[string]bool{}
	for _, segments := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4), 1, 12).Draw(r, "paths") {
		file := path.Join(segments...)
		if _, is := out[file]; is {
			continue
		}
		isBelowFile := false
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			folder, is := out[dir]
			isBelowFile = isBelowFile || is && !folder
		}
		if isBelowFile {
			continue
		}
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			out[dir] = true
		}
		out[file] = false
	}
	return out
}

// TestIgnoreFilesAreReadAsGitReadsThem: in random trees, with ignore files in the project's folder, in folders above
// and below it, what is packed is what `git check-ignore` does not tell.
func TestIgnoreFilesAreReadAsGitReadsThem(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to compare with")
	}
	top := t.TempDir()
	git(t, top, "init", "-q")
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		above := filepath.Join(top, fmt.Sprintf("a%d", n))
		dir := filepath.Join(above, "shop")
		must(t, os.MkdirAll(dir, 0o755))
		defer func() { must(t, os.RemoveAll(above)) }()
		paths := tree(r)
		ignoreFiles := map[string]string{filepath.Join("..", gitIgnoreFile): "", gitIgnoreFile: ""}
		for p, folder := range paths {
			must(t, os.MkdirAll(filepath.Join(dir, path.Dir(p)), 0o755))
			if folder {
				must(t, os.MkdirAll(filepath.Join(dir, p), 0o755))
			} else {
				must(t, os.WriteFile(filepath.Join(dir, p), nil, 0o600))
			}
		}
		folders := []string{"..", "."}
		for _, p := range slices.Sorted(maps.Keys(paths)) {
			if paths[p] {
				folders = append(folders, p)
			}
		}
		for _, folder := range folders {
			if folder != "." && !rapid.Bool().Draw(r, "has ignore file") {
				continue
			}
			text := strings.Join(rapid.SliceOfN(rapid.Custom(pattern), 1, 4).Draw(r, "lines"), "\n")
			ignoreFiles[filepath.Join(folder, gitIgnoreFile)] = text
			must(t, os.WriteFile(filepath.Join(dir, folder, gitIgnoreFile), []byte(text), 0o600))
		}
		if len(notIgnored(t, above, map[string]bool{"shop": false})) == 0 {
			return // who names a folder means it
		}
		want := slices.Sorted(maps.Keys(notIgnored(t, dir, paths)))
		files, _ := packed(t, open(t, dir))
		maps.DeleteFunc(files, func(p, _ string) bool { return path.Base(p) == gitIgnoreFile || p == metadataFile })
		if !slices.Equal(keys(files), want) {
			r.Fatalf("packed %q, and git ignores all but %q of %v with %q", keys(files), want, paths, ignoreFiles)
		}
	})
}

// notIgnored are the files that git does not ignore.
func notIgnored(t testing.TB, dir string, paths map[string]bool) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z")
	cmd.Stdin = strings.NewReader(strings.Join(slices.Sorted(maps.Keys(paths)), "\x00"))
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || e.ExitCode() != 1) { // 1: none is ignored
		t.Fatal(err)
	}
	rest := maps.Clone(paths)
	for name := range bytes.SplitSeq(out, []byte{0}) {
		delete(rest, string(name))
	}
	maps.DeleteFunc(rest, func(_ string, folder bool) bool { return folder })
	return rest
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Env = append(gitEnv(os.Environ()), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestNobodyWaitsForARepositoryThatHasPipes: git would, until it is ended.
func TestNobodyWaitsForARepositoryThatHasPipes(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	for _, name := range []string{"HEAD", "config", "packed-refs"} {
		dir := t.TempDir()
		git(t, dir, "init", "-q")
		git(t, dir, "remote", "add", "origin", "https://git.example.com/team/shop.git")
		if open(t, dir).Metadata.Branch == "" {
			t.Fatal("nothing is read of a repository")
		}
		_ = os.Remove(filepath.Join(dir, ".git", name))
		if err := mkfifo(filepath.Join(dir, ".git", name)); err != nil {
			t.Skipf("no pipes here: %v", err)
		}
		if readable(filepath.Join(dir, ".git")) || open(t, dir).Metadata != (Metadata{}) {
			t.Errorf("git is asked about a repository whose %s is a pipe", name)
		}
	}
}

func TestMetadataAreThoseOfTheWorkingCopy(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	want := func(where string, want Metadata) {
		t.Helper()
		if got := open(t, where).Metadata; got != want {
			t.Errorf("%s: %+v, want %+v", where, got, want)
		}
	}
	want(dir, Metadata{})
	write(t, dir, map[string]string{"shop/" + routes: "{}"})
	git(t, dir, "init", "-q")
	git(t, dir, "remote", "add", "origin", "https://user:gho_token@git.example.com/team/shop.git?token=x#y")
	shop := filepath.Join(dir, "shop")
	const url = "https://git.example.com/team/shop.git"
	want(shop, Metadata{Branch: "main", RepositoryURL: url})
	git(t, dir, "config", "url.https://token-of-this-machine@mirror.example.com/.insteadOf", "https://user:gho_token@git.example.com/")
	want(shop, Metadata{Branch: "main", RepositoryURL: url})
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
	sha := git(t, dir, "rev-parse", "HEAD")
	want(shop, Metadata{"main", url, sha})
	git(t, dir, "checkout", "-qb", "feature/x")
	git(t, dir, "remote", "add", "fork", "git@git.example.com:me/shop.git")
	git(t, dir, "config", "branch.feature/x.remote", "fork")
	want(shop, Metadata{"feature/x", "ssh://git.example.com/me/shop.git", sha})
	tree := filepath.Join(t.TempDir(), "tree")
	git(t, dir, "worktree", "add", "-q", "-b", "other", tree)
	want(filepath.Join(tree, "shop"), Metadata{"other", url, sha})
	outer := t.TempDir()
	git(t, outer, "init", "-q")
	git(t, outer, "submodule", "--quiet", "add", "-b", "main", dir, "api")
	want(filepath.Join(outer, "api", "shop"), Metadata{"main", "", sha})
	git(t, dir, "checkout", "-q", "--detach")
	want(shop, Metadata{"", url, sha})
	t.Setenv("GIT_DIR", filepath.Join(outer, ".git"))
	want(shop, Metadata{"", url, sha})
	t.Setenv("PATH", t.TempDir())
	want(shop, Metadata{})
}

func TestAddressesOfRemotesLoseWhatIsSecret(t *testing.T) {
	for remote, want := range map[string]string{
		"https://git.example.com/shop":                    "https://git.example.com/shop",
		"https://gho_token@git.example.com:8443/shop.git": "https://git.example.com:8443/shop.git",
		"http://u:p@git.example.com/shop?access_token=x":  "http://git.example.com/shop",
		"ssh://git:secret@git.example.com:22/shop":        "ssh://git.example.com:22/shop",
		"git@git.example.com:team/shop.git":               "ssh://git.example.com/team/shop.git",
		"user:token@git.example.com:shop":                 "ssh://git.example.com/shop",
		"git.example.com:shop":                            "ssh://git.example.com/shop",
		"git://git.example.com/shop":                      "git://git.example.com/shop",
		"/srv/repositories/shop":                          "",
		"../shop":                                         "",
		"file:///srv/repositories/shop":                   "",
		`C:\Users\me\shop`:                                "",
		"C:/Users/me/shop":                                "",
		"ext::sh -c 'token=x'":                            "",
		"codecommit::us-east-1://profile@shop":            "",
		"https://u:p@[bad/shop":                           "",
		"https://u:p%zz@git.example.com/shop":             "",
		"":                                                "",
	} {
		if got := publicURL(remote); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}

func TestAnIgnoreFileAboveTheProjectIsBounded(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{".git", "project"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, gitIgnoreFile), bytes.Repeat([]byte("\n"), maxIgnoreBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), filepath.Join(dir, "project"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = p.Files(t.Context())
	if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Error(), "../.gitignore has more than") {
		t.Errorf("it answers %v", err)
	}
}

// TestEscapedSlashesAreSlashes: git takes them for such, but for "**" in front of one, which is a folder at least; more stars than two are two.
func TestEscapedSlashesAreSlashes(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to compare with")
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	paths := map[string]bool{}
	for _, name := range []string{"a/a", "a/b", "a/x/b", "ab/b", "abb", "b", "x/a", "x/a/b", "x/y/b"} {
		must(t, os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o755))
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			continue
		}
		paths[name] = false
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			paths[folder] = true
		}
		if name != "x/a" {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
	}
	delete(paths, "x/a")
	paths["x/a"] = true
	for _, line := range []string{`a\/b`, `a\/[^a]`, `\/a`, `/\/a`, `**\/b`, `/**\/b`, `a\/**`, `a/**\/b`, `*\/b`, `a\/`, `a\\/b`, `***/b`, `a/***/b`, `a/****`, `x\/a\/b`, `\**\/b`} {
		must(t, os.WriteFile(filepath.Join(dir, gitIgnoreFile), []byte("/"+gitIgnoreFile+"\n"+line), 0o600))
		want := slices.Sorted(maps.Keys(notIgnored(t, dir, paths)))
		files, _ := packed(t, open(t, dir))
		delete(files, metadataFile)
		if !slices.Equal(keys(files), want) {
			t.Errorf("%s packs %q, and git ignores all but %q", line, keys(files), want)
		}
	}
}

// TestIgnoreFileIsReadAsItsAuthorWroteIt: what an editor puts in front of its first line is no part of that; none is read through a link, as git reads none, and
// one that is too large is refused and not left aside.
func TestIgnoreFileIsReadAsItsAuthorWroteIt(t *testing.T) {
	t.Parallel()
	files, _ := packed(t, made(t, map[string]string{routes: "{}", gitIgnoreFile: "\xef\xbb\xbfsecret.txt\n", "secret.txt": "x"}))
	if _, is := files["secret.txt"]; is {
		t.Error("a mark of the encoding has the first line ignore nothing")
	}
	files, _ = packed(t, made(t, map[string]string{routes: "{}", "rules": "*.txt\n", "docs/" + gitIgnoreFile: "-> ../rules", "docs/a.txt": "x"}))
	if _, is := files["docs/a.txt"]; !is {
		t.Error("a .gitignore that is a link is read")
	}
	problems := refused(t, made(t, map[string]string{routes: "{}", "docs/" + gitIgnoreFile: strings.Repeat("\n", maxIgnoreBytes+1)}))
	if len(problems) != 1 || !strings.Contains(problems[0], "has more than") {
		t.Errorf("one that is too large is refused for %q", problems)
	}
}

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

// names are the names of random files and folders. patternParts are the segments of random patterns.
var (
	names = []string{
		"a", "b", "ab", "a.js", "b.log", "a b", "é", "[a]", "#x", "!y", "-", "*", "a ", "]", "A",
		"foo", ".x", "node_modules",
	}
	patternParts = []string{
		"a", "b", "ab", "*", "**", "?", "[ab]", "[!a]", "[^a]", "[[:alpha:]]", "[a-c]*", "*.js", "*.log", "a b", "é",
		`\[a\]`, `\#x`, `\!y`, "foo", "a*", "**a", "a**b", "A", ".*", "[]-]",
		`a\`, `\a`, "é*", "node_modules", `[\]a]`, `*\ `, "{a,b}", "[a-", "***", "****", "[]a]", "[!]]", "[!a-z]",
		"[[:foo:]]", "[\\\\]", "[é]", "??", "[!!]", "[--0]", "[a-\\z]",
	}
)

// pattern returns a random line of an ignore file. It avoids the patterns that have another effect in git (ignore.go).
func pattern(r *rapid.T) string {
	line := strings.Join(rapid.SliceOfN(rapid.SampledFrom(patternParts), 1, 3).Draw(r, "parts"), "/")
	if strings.Contains(line, "[a-/") {
		line = strings.ReplaceAll(line, "[a-/", "a/")
	}
	return rapid.SampledFrom([]string{"", "", "/", "!", "!", "!/", "#", " ", "!!"}).Draw(r,
		"before") + line + rapid.SampledFrom([]string{
		"", "", "", "/", "  ", "\t", "\r", "/ ", `\ `, ` \  `, "\r\r", "/\r",
		"/***", "//", `\\`,
	}).Draw(r, "after")
}

// tree returns random paths. The value is true for a folder.
func tree(r *rapid.T) map[string]bool {
	out := map[string]bool{}
	for _, segments := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4), 1, 12).Draw(r, "paths") {
		file := path.Join(segments...)
		if _, exists := out[file]; exists {
			continue
		}
		isBelowFile := false
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			folder, exists := out[dir]
			isBelowFile = isBelowFile || exists && !folder
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

// TestIgnoreFilesMatchGit compares the packed files with the result of `git check-ignore`, for random trees with ignore
// files in the project's folder, above it and below it.
func TestIgnoreFilesMatchGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to compare with")
	}
	top := t.TempDir()
	git(t, top, "init", "-q")
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		parent := filepath.Join(top, fmt.Sprintf("a%d", n))
		dir := filepath.Join(parent, "shop")
		must(t, os.MkdirAll(dir, 0o755))
		defer func() { must(t, os.RemoveAll(parent)) }()
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
		if len(notIgnored(t, parent, map[string]bool{"shop": false})) == 0 {
			return // the project's folder itself is never ignored
		}
		want := slices.Sorted(maps.Keys(notIgnored(t, dir, paths)))
		files, _ := archiveContents(t, open(t, dir))
		maps.DeleteFunc(files, func(p, _ string) bool { return path.Base(p) == gitIgnoreFile || p == metadataFile })
		if !slices.Equal(sortedKeys(files), want) {
			r.Fatalf("files of the archive = %q, want %q as by git, of %v with %q", sortedKeys(files), want, paths, ignoreFiles)
		}
	})
}

// notIgnored returns the files that git does not ignore.
func notIgnored(t testing.TB, dir string, paths map[string]bool) map[string]bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "core.excludesFile=", "check-ignore", "--no-index",
		"--stdin", "-z")
	cmd.Stdin = strings.NewReader(strings.Join(slices.Sorted(maps.Keys(paths)), "\x00"))
	out, err := cmd.Output()
	// exit code 1: no path is ignored
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || e.ExitCode() != 1) {
		t.Fatal(err)
	}
	remaining := maps.Clone(paths)
	for name := range bytes.SplitSeq(out, []byte{0}) {
		delete(remaining, string(name))
	}
	maps.DeleteFunc(remaining, func(_ string, folder bool) bool { return folder })
	return remaining
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git",
		append([]string{
			"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main",
			"-c", "protocol.file.allow=always",
		}, args...)...)
	cmd.Env = append(gitEnv(os.Environ()), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: error = %v, want none\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestRepositoryWithPipesDoesNotBlock checks that git is not run in a repository whose files are pipes: git would
// block.
func TestRepositoryWithPipesDoesNotBlock(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	for _, name := range []string{"HEAD", "config", "packed-refs"} {
		dir := t.TempDir()
		git(t, dir, "init", "-q")
		git(t, dir, "remote", "add", "origin", "https://git.example.com/team/shop.git")
		if open(t, dir).Metadata.Branch == "" {
			t.Fatal("Metadata of a repository has no branch, want one")
		}
		_ = os.Remove(filepath.Join(dir, ".git", name))
		if err := mkfifo(filepath.Join(dir, ".git", name)); err != nil {
			t.Skipf("no pipes here: %v", err)
		}
		if isReadableRepository(filepath.Join(dir, ".git")) || open(t, dir).Metadata != (Metadata{}) {
			t.Errorf("Open() of a repository whose %s is a pipe has metadata, want none", name)
		}
	}
}

func TestMetadataDescribesWorkingCopy(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	check := func(folder string, want Metadata) {
		t.Helper()
		if got := open(t, folder).Metadata; got != want {
			t.Errorf("Open(%s) Metadata = %+v, want %+v", folder, got, want)
		}
	}
	check(dir, Metadata{})
	write(t, dir, map[string]string{"shop/" + routes: "{}"})
	git(t, dir, "init", "-q")
	git(t, dir, "remote", "add", "origin", "https://user:gho_token@git.example.com/team/shop.git?token=x#y")
	shop := filepath.Join(dir, "shop")
	const url = "https://git.example.com/team/shop.git"
	check(shop, Metadata{Branch: "main", RepositoryURL: url})
	git(t, dir, "config", "url.https://token-of-this-machine@mirror.example.com/.insteadOf",
		"https://user:gho_token@git.example.com/")
	check(shop, Metadata{Branch: "main", RepositoryURL: url})
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
	sha := git(t, dir, "rev-parse", "HEAD")
	check(shop, Metadata{"main", url, sha})
	git(t, dir, "checkout", "-qb", "feature/x")
	git(t, dir, "remote", "add", "fork", "git@git.example.com:me/shop.git")
	git(t, dir, "config", "branch.feature/x.remote", "fork")
	check(shop, Metadata{"feature/x", "ssh://git.example.com/me/shop.git", sha})
	worktree := filepath.Join(t.TempDir(), "tree")
	git(t, dir, "worktree", "add", "-q", "-b", "other", worktree)
	check(filepath.Join(worktree, "shop"), Metadata{"other", url, sha})
	outer := t.TempDir()
	git(t, outer, "init", "-q")
	git(t, outer, "submodule", "--quiet", "add", "-b", "main", dir, "api")
	check(filepath.Join(outer, "api", "shop"), Metadata{"main", "", sha})
	git(t, dir, "checkout", "-q", "--detach")
	check(shop, Metadata{"", url, sha})
	t.Setenv("GIT_DIR", filepath.Join(outer, ".git"))
	check(shop, Metadata{"", url, sha})
	t.Setenv("PATH", t.TempDir())
	check(shop, Metadata{})
}

func TestRemoteURLContainsNoSecret(t *testing.T) {
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
			t.Errorf("publicURL(%s) = %q, want %q", remote, got, want)
		}
	}
}

func TestParentIgnoreFileSizeIsLimited(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{".git", "project"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, gitIgnoreFile), bytes.Repeat([]byte("\n"), maxIgnoreBytes+1),
		0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), filepath.Join(dir, "project"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = p.Files(t.Context())
	if refused, ok := errors.AsType[*RefusedError](err); !ok ||
		!strings.Contains(refused.Error(), "../.gitignore has more than") {
		t.Errorf("Files() error = %v, want a *RefusedError for the size of ../.gitignore", err)
	}
}

// TestEscapedSlashMatchesSlash checks that escaped slashes have the same effect as in git. After "**", an escaped slash
// requires at least one folder. More than two stars are equivalent to two.
func TestEscapedSlashMatchesSlash(t *testing.T) {
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
	for _, line := range []string{
		`a\/b`, `a\/[^a]`, `\/a`, `/\/a`, `**\/b`, `/**\/b`, `a\/**`, `a/**\/b`, `*\/b`, `a\/`,
		`a\\/b`, `***/b`, `a/***/b`, `a/****`, `x\/a\/b`, `\**\/b`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, gitIgnoreFile), []byte("/"+gitIgnoreFile+"\n"+line), 0o600))
		want := slices.Sorted(maps.Keys(notIgnored(t, dir, paths)))
		files, _ := archiveContents(t, open(t, dir))
		delete(files, metadataFile)
		if !slices.Equal(sortedKeys(files), want) {
			t.Errorf("files of the archive with the line %s = %q, want %q as by git", line, sortedKeys(files), want)
		}
	}
}

// TestUnusualIgnoreFiles checks that a byte order mark is not part of the first line. An ignore file that is a link
// must not be read, as in git. An ignore file that is too large must be an error.
func TestUnusualIgnoreFiles(t *testing.T) {
	t.Parallel()
	files, _ := archiveContents(t, newProject(t, map[string]string{
		routes: "{}", gitIgnoreFile: "\xef\xbb\xbfsecret.txt\n",
		"secret.txt": "x",
	}))
	if _, exists := files["secret.txt"]; exists {
		t.Error("a .gitignore with a byte order mark does not exclude secret.txt, want it excluded")
	}
	files, _ = archiveContents(t,
		newProject(t, map[string]string{
			routes: "{}", "rules": "*.txt\n", "docs/" + gitIgnoreFile: "-> ../rules",
			"docs/a.txt": "x",
		}))
	if _, exists := files["docs/a.txt"]; !exists {
		t.Error("a .gitignore that is a link excludes docs/a.txt, want the link ignored")
	}
	problems := refusalProblems(t,
		newProject(t, map[string]string{routes: "{}", "docs/" + gitIgnoreFile: strings.Repeat("\n", maxIgnoreBytes+1)}))
	if len(problems) != 1 || !strings.Contains(problems[0], "has more than") {
		t.Errorf("Files() with a .gitignore that is too large: problems %q, want one about its size", problems)
	}
}

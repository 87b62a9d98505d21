package folder

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/project"
)

const routes = "config/routes.oas.json"

// write writes files to the folder dir. A name that ends in "/" is a folder, and content that begins with "-> " is a
// link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		dst := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(dst), 0o755))
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			must(t, os.Symlink(target, dst))
			continue
		}
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(dst, 0o755))
			continue
		}
		must(t, os.WriteFile(dst, []byte(content), 0o600))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *Project {
	t.Helper()
	p, err := Open(t.Context(), dir)
	must(t, err)
	return p
}

func newProject(t testing.TB, files map[string]string) *Project {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	must(t, os.Mkdir(dir, 0o755))
	write(t, dir, files)
	return open(t, dir)
}

// archiveContents returns the files of the archive by name, and the summary.
func archiveContents(t testing.TB, p *Project) (map[string]string, Summary) {
	t.Helper()
	var b bytes.Buffer
	summary, err := p.Archive(t.Context(), &b)
	must(t, err)
	return readArchive(t, b.Bytes()), summary
}

func readArchive(t testing.TB, archive []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		if h.Typeflag == tar.TypeReg {
			out[h.Name] = string(data)
		}
	}
}

// refusalProblems returns the problems of a folder that must be refused.
func refusalProblems(t testing.TB, p *Project) []string {
	t.Helper()
	_, _, err := p.Files(t.Context())
	var b bytes.Buffer
	_, packErr := p.Archive(t.Context(), &b)
	filesErr, okFiles := errors.AsType[*RefusedError](err)
	archiveErr, okArchive := errors.AsType[*RefusedError](packErr)
	if !okFiles || !okArchive || !slices.Equal(filesErr.Problems, archiveErr.Problems) || b.Len() > 0 {
		t.Fatalf("Files() error = %v, Archive() error = %v with %d bytes, "+
			"want a *RefusedError with the same problems and 0 bytes", err, packErr, b.Len())
	}
	var out []string
	for _, problem := range filesErr.Problems {
		out = append(out, problem.File+": "+problem.Message)
	}
	return out
}

func sortedKeys(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }

func TestUploadedFiles(t *testing.T) {
	base := map[string]string{
		routes: "{}", "docs/guide.md": "# Guide", ".git/config": "x", "modules/.git": "gitdir: x", ".env": "KEY=1",
		"modules/.env.local": "x", ".ENV": "x", ".gatewright-keys-123": "x",
		".gatewright/account-key": "gwa_x", "node_modules/a/index.js": "x", "build/out.js": "x", "build/keep.js": "x",
		"logs/a.log": "x", "logs/.gitignore": "*\n!keep.log", "logs/keep.log": "x",
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"no ignore file", nil, []string{
			"build/keep.js", "build/out.js", routes, "docs/guide.md", "logs/keep.log", // logs/.gitignore ignores itself
		}},
		{
			".gitignore",
			map[string]string{".gitignore": "/build/*\n!/build/keep.js\r\n"},
			[]string{".gitignore", "build/keep.js", routes, "docs/guide.md", "logs/keep.log", "node_modules/a/index.js"},
		},
		{
			"exceptions from ignored folders",
			map[string]string{".gitignore": "build/**\n!build/keep.js\ndocs/\n!docs\n"},
			[]string{".gitignore", "build/keep.js", routes, "docs/guide.md", "logs/keep.log", "node_modules/a/index.js"},
		},
		{
			"ignore file of Gatewright",
			map[string]string{".gitignore": "/build", ".gatewrightignore": "docs\nnode_modules/\n"},
			[]string{
				".gatewrightignore", ".gitignore", "build/keep.js", "build/out.js", routes, "logs/.gitignore", "logs/a.log",
				"logs/keep.log",
			},
		},
		{
			"secrets that the ignore file includes",
			map[string]string{
				".gatewrightignore": "*\n!config/\n!config/**\n!.env\n!.ENV\n!.git\n!.gatewright\n!.gatewright/**\n",
			},
			[]string{routes},
		},
	} {
		files := maps.Clone(base)
		maps.Copy(files, c.files)
		got, summary := archiveContents(t, newProject(t, files))
		if c.name == "ignore file of Gatewright" && got["logs/a.log"] == "" {
			t.Errorf("%s: logs/a.log is missing, want it despite logs/.gitignore", c.name)
		}
		if !slices.Equal(sortedKeys(got), c.want) {
			t.Errorf("%s: Archive() has the files %q, want %q; excluded: %v",
				c.name, sortedKeys(got), c.want, summary.Excluded)
		}
	}
}

// TestParentIgnoreFilesApply opens a project below the top of its repository through a link, and checks that the ignore
// files of its parent folders in the repository apply.
func TestParentIgnoreFilesApply(t *testing.T) {
	home := t.TempDir()
	top := filepath.Join(home, "repository")
	write(t, home, map[string]string{".gitignore": "*.json"}) // outside of the repository
	write(t, top, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "*.log\n/shop/dist\nnode_modules\n",
		"apis/.gitignore":     "!keep.log\n/shop/tmp/\n",
		"apis/shop/" + routes: "{}", "apis/shop/a.log": "x", "apis/shop/keep.log": "x", "apis/shop/tmp/x": "x",
		"apis/shop/dist/x": "x", "apis/shop/node_modules/x": "x",
	})
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Join(top, "apis", "shop"), link))
	if rel := open(t, link).PathInRepository(); rel != "apis/shop" {
		t.Errorf("PathInRepository() = %q, want apis/shop", rel)
	}
	got, summary := archiveContents(t, open(t, link))
	if want := []string{routes, "dist/x", "keep.log"}; !slices.Equal(sortedKeys(got), want) {
		t.Errorf("Archive() has the files %q, want %q", sortedKeys(got), want)
	}
	want := []ExcludedPath{
		{"a.log", "../../.gitignore:1"},
		{"node_modules/", "../../.gitignore:3"},
		{"tmp/", "../.gitignore:2"},
	}
	if !slices.Equal(summary.Excluded, want) {
		t.Errorf("Archive() excludes %v, want %v", summary.Excluded, want)
	}
	// With a .gatewrightignore, no .gitignore is read, not even in parent folders.
	write(t, top, map[string]string{"apis/shop/" + ownIgnoreFile: "tmp"})
	got, _ = archiveContents(t, open(t, link))
	if want := []string{
		ownIgnoreFile, "a.log", routes, "dist/x", "keep.log",
		"node_modules/x",
	}; !slices.Equal(sortedKeys(got), want) {
		t.Errorf("Archive() with a .gatewrightignore has the files %q, want %q", sortedKeys(got), want)
	}
}

func TestSummaryListsExcludedFiles(t *testing.T) {
	_, summary := archiveContents(t, newProject(t, map[string]string{
		routes: "{}", ".gitignore": "*.md\n\nconfig/policies.json\n", "a.md": "x", "config/policies.json": "{}",
		".env.local": "x", "data.bin": strings.Repeat("x", 1000),
	}))
	want := Summary{
		Files: 3, Bytes: 1000 + 2 + int64(len("*.md\n\nconfig/policies.json\n")),
		Excluded: []ExcludedPath{
			{".env.local", "secrets of this machine: set variables of the environment instead"},
			{"a.md", ".gitignore:1"},
			{"config/policies.json", ".gitignore:3"},
		},
		Warnings: []project.Problem{{File: "config/policies.json", Message: "This is left out by .gitignore:3, so that no " +
			"build reads it. Correct that line."}},
	}
	if !reflect.DeepEqual(summary, want) {
		t.Errorf("Archive() summary = %+v, want %+v", summary, want)
	}
	many := map[string]string{".gitignore": "*.log"}
	for i := range maxExcluded + 7 {
		many[fmt.Sprintf("%04d.log", i)] = ""
	}
	if _, summary := archiveContents(t, newProject(t, many)); len(summary.Excluded) != maxExcluded ||
		summary.MoreExcluded != 7 {
		t.Errorf("Summary has %d excluded files and %d more, want %d and 7",
			len(summary.Excluded), summary.MoreExcluded, maxExcluded)
	}
}

// TestArchiveIsReproducible checks that an archive of the same files has the same bytes in another folder, and with
// other times and modes of the files.
func TestArchiveIsReproducible(t *testing.T) {
	files := map[string]string{
		routes: "{}", "b/c.txt": "c", "b.txt": "b", "a/": "",
		"é/" + strings.Repeat("long", 40) + ".txt": "x",
	}
	var archives [2]bytes.Buffer
	for i := range archives {
		p := newProject(t, files)
		must(t, os.Chmod(filepath.Join(p.Dir, "b.txt"), []os.FileMode{0o600, 0o640}[i]))
		modified := time.Date(2020+i, 1, 1, 0, 0, 0, 0, time.UTC)
		must(t, os.Chtimes(filepath.Join(p.Dir, "b.txt"), modified, modified))
		p.Metadata = Metadata{Branch: "main", RepositoryURL: "https://git.example.com/shop", SHA: "abc"}
		_, err := p.Archive(t.Context(), &archives[i])
		must(t, err)
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("two archives of the same files differ, want the same bytes")
	}
	got := readArchive(t, archives[0].Bytes())[metadataFile]
	if got != `{"branch":"main","repoUrl":"https://git.example.com/shop","sha":"abc"}`+
		"\n" {
		t.Errorf("%s = %s, want the branch, the repository and the commit", metadataFile, got)
	}
}

// TestFilesMatchArchive checks that Files returns the files that the archive contains.
func TestFilesMatchArchive(t *testing.T) {
	p := newProject(t, map[string]string{
		routes: `{"openapi":1}`, "config/b.oas.json": "{}", "config/policies.json": "{}", "gatewright.jsonc": "{}",
		"config/shop.oas.yaml": "x", "modules/a.js": "x",
		"config/linked.oas.json": "-> ../shared.json", "shared.json": `{"linked":true}`, "more": "-> config",
	})
	files, summary, err := p.Files(t.Context())
	must(t, err)
	var b bytes.Buffer
	archiveSummary, err := p.Archive(t.Context(), &b)
	must(t, err)
	unpacked, problems, err := project.Unpack(t.Context(), &b, project.DefaultLimits())
	if err != nil || len(problems) > 0 {
		t.Fatalf("Unpack() of the archive: error = %v, problems = %v, want none", err, problems)
	}
	if !reflect.DeepEqual(files, unpacked) || !reflect.DeepEqual(summary, archiveSummary) {
		t.Errorf("Files() = %q, %+v, want %q, %+v as in the archive", files, summary, unpacked, archiveSummary)
	}
	if string(files["config/linked.oas.json"]) != `{"linked":true}` {
		t.Errorf(`Files() has %q for a link, want {"linked":true}`, files["config/linked.oas.json"])
	}
}

func TestCaseConflictIsWarned(t *testing.T) {
	_, summary := archiveContents(t, newProject(t, map[string]string{routes: "{}", "docs/A.md": "", "docs/a.md": ""}))
	want := []project.Problem{{File: "docs/a.md", Message: "This name and docs/A.md differ in case alone: where a " +
		"machine takes them for one, as Windows and macOS do, one of them is lost. Rename one."}}
	if !slices.Equal(summary.Warnings, want) {
		t.Errorf("Warnings = %v, want %v", summary.Warnings, want)
	}
}

// TestChangedFileIsNotArchived checks that Archive fails if a file changes while it is read.
func TestChangedFileIsNotArchived(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"longer":  func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("y", 200_001)), 0o600) },
		"shorter": func(path string) error { return os.Truncate(path, 150_000) },
		"deleted": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, make([]byte, 200_000), 0o600))
		},
	} {
		p := newProject(t, map[string]string{"a": "x", "b": strings.Repeat("x", 200_000)})
		// Archive writes its first bytes after it has listed all files.
		first := true
		_, err := p.Archive(t.Context(), writerFunc(func(b []byte) (int, error) {
			if first {
				first = false
				must(t, change(filepath.Join(p.Dir, "b")))
			}
			return len(b), nil
		}))
		if e, ok := errors.AsType[*ChangedError](err); !ok || e.File != "b" {
			t.Errorf("%s: Archive() error = %v, want a *ChangedError for b", name, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func TestArchiveReturnsWriterAndContextErrors(t *testing.T) {
	p := newProject(t, map[string]string{"a": "x"})
	errFull, errInterrupted := errors.New("no space left"), errors.New("interrupted")
	if _, err := p.Archive(t.Context(), writerFunc(func([]byte) (int, error) {
		return 0, errFull
	})); !errors.Is(err, errFull) {
		t.Errorf("Archive() with a failing writer: error = %v, want %v", err, errFull)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if _, err := p.Archive(ctx, io.Discard); !errors.Is(err, errInterrupted) {
		t.Errorf("Archive() with a canceled context: error = %v, want %v", err, errInterrupted)
	}
	if _, _, err := p.Files(ctx); !errors.Is(err, errInterrupted) {
		t.Errorf("Files() with a canceled context: error = %v, want %v", err, errInterrupted)
	}
}

func TestOpenRefusesNonFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{
		file:           fmt.Sprintf("%q is no folder: name the folder that config/ is in", file),
		file + "/none": "",
		file + "-none": fmt.Sprintf("there is no folder %q: name the folder that config/ is in", file+"-none"),
	} {
		if _, err := Open(t.Context(), dir); err == nil || want != "" && err.Error() != want {
			t.Errorf("Open(%s) error = %v, want %q (any error if this is empty)", dir, err, want)
		}
	}
}

func TestLockFileWithPrivateRegistryIsExcluded(t *testing.T) {
	for text, host := range map[string]string{
		`"resolved": "http://localhost:4873/a/-/a-1.0.0.tgz"`:                               "localhost",
		`"resolved": "https://user:token@127.0.0.1/a.tgz"`:                                  "127.0.0.1",
		`resolved "http://[::1]:4873/a.tgz#123"`:                                            "[::1]",
		`tarball: https://10.1.2.3/a.tgz`:                                                   "10.1.2.3",
		"http://registry.example.com/a http://192.168.0.10:80/b":                            "192.168.0.10",
		`"resolved": "https://registry.example.com/a/-/a-1.0.0.tgz"`:                        "",
		`"https://10.example.com/a" "https://127.0.0.1.example.com" "localhost"`:            "",
		"https://172.32.0.1/ https://8.8.8.8/":                                              "",
		strings.Repeat("x", 64<<10-len("http://10.0.0.1")) + "http://10.0.0.1.example.com/": "",
		strings.Repeat("x", 64<<10-9) + "http://10.0.0.1/":                                  "10.0.0.1",
		"http://10.0.0.1": "10.0.0.1",
	} {
		_, summary := archiveContents(t,
			newProject(t, map[string]string{routes: "{}", "web/package-lock.json": text, "web/notes.json": text}))
		var want []ExcludedPath
		if host != "" {
			want = []ExcludedPath{{"web/package-lock.json", "it points to a registry of this machine or network, " + host}}
		}
		if !slices.Equal(summary.Excluded, want) {
			t.Errorf("Archive() with a lock file of %.80s excludes %v, want %v", text, summary.Excluded, want)
		}
	}
}

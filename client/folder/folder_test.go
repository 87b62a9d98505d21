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
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/project"
)

const routes = "config/routes.oas.json"

// write makes a folder with files; a name that ends in "/" is a folder, a content that begins with "-> " a link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			must(t, os.Symlink(target, at))
			continue
		}
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(at, 0o755))
			continue
		}
		must(t, os.WriteFile(at, []byte(content), 0o600))
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

func made(t testing.TB, files map[string]string) *Project {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	must(t, os.Mkdir(dir, 0o755))
	write(t, dir, files)
	return open(t, dir)
}

// packed are the files of the archive, by their names.
func packed(t testing.TB, p *Project) (map[string]string, Summary) {
	t.Helper()
	var b bytes.Buffer
	summary, err := p.Archive(t.Context(), &b)
	must(t, err)
	return contents(t, b.Bytes()), summary
}

func contents(t testing.TB, archive []byte) map[string]string {
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

// refused are the problems for which a folder is refused, as lines.
func refused(t testing.TB, p *Project) []string {
	t.Helper()
	_, _, err := p.Files(t.Context())
	var b bytes.Buffer
	_, packErr := p.Archive(t.Context(), &b)
	one, ok := errors.AsType[*RefusedError](err)
	two, okToo := errors.AsType[*RefusedError](packErr)
	if !ok || !okToo || !slices.Equal(one.Problems, two.Problems) || b.Len() > 0 {
		t.Fatalf("Files: %v, Archive: %v with %d bytes; want one refusal", err, packErr, b.Len())
	}
	var out []string
	for _, problem := range one.Problems {
		out = append(out, problem.File+": "+problem.Message)
	}
	return out
}

func keys(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }

func TestWhatIsUploaded(t *testing.T) {
	always := map[string]string{
		routes: "{}", "docs/guide.md": "# Guide", ".git/config": "x", "modules/.git": "gitdir: x", ".env": "KEY=1", "modules/.env.local": "x", ".ENV": "x", ".gatewright-keys-123": "x",
		".gatewright/account-key": "gwa_x", "node_modules/a/index.js": "x", "build/out.js": "x", "build/keep.js": "x", "logs/a.log": "x", "logs/.gitignore": "*\n!keep.log", "logs/keep.log": "x",
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"no ignore file", nil, []string{"build/keep.js", "build/out.js", routes, "docs/guide.md", "logs/.gitignore", "logs/keep.log"}},
		{".gitignore", map[string]string{".gitignore": "/build/*\n!/build/keep.js\r\n"}, []string{".gitignore", "build/keep.js", routes, "docs/guide.md", "logs/keep.log", "node_modules/a/index.js"}},
		{"what is in a folder", map[string]string{".gitignore": "build/**\n!build/keep.js\ndocs/\n!docs\n"}, []string{".gitignore", "build/keep.js", routes, "docs/guide.md", "logs/keep.log", "node_modules/a/index.js"}},
		{"one of its own", map[string]string{".gitignore": "/build", ".gatewrightignore": "docs\nnode_modules/\n"}, []string{".gatewrightignore", ".gitignore", "build/keep.js", "build/out.js", routes, "logs/.gitignore", "logs/a.log", "logs/keep.log"}},
		{"a secret that is brought back", map[string]string{".gatewrightignore": "*\n!config/\n!config/**\n!.env\n!.ENV\n!.git\n!.gatewright\n!.gatewright/**\n"}, []string{routes}},
	} {
		files := maps.Clone(always)
		maps.Copy(files, c.files)
		got, summary := packed(t, made(t, files))
		if c.name == "no ignore file" { // logs/.gitignore says so of itself
			delete(got, "logs/.gitignore")
			c.want = slices.DeleteFunc(c.want, func(n string) bool { return n == "logs/.gitignore" })
		}
		if c.name == "one of its own" && got["logs/a.log"] == "" {
			t.Errorf("%s: .gitignore counts beside it", c.name)
		}
		if !slices.Equal(keys(got), c.want) {
			t.Errorf("%s: %q is packed, want %q; left out: %v", c.name, keys(got), c.want, summary.LeftOut)
		}
	}
}

// TestIgnoreFilesAboveTheProjectCount, by whatever name its folder is opened.
func TestIgnoreFilesAboveTheProjectCount(t *testing.T) {
	home := t.TempDir()
	top := filepath.Join(home, "repository")
	write(t, home, map[string]string{".gitignore": "*.json"}) // which is none of the repository's
	write(t, top, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "*.log\n/shop/dist\nnode_modules\n", "apis/.gitignore": "!keep.log\n/shop/tmp/\n",
		"apis/shop/" + routes: "{}", "apis/shop/a.log": "x", "apis/shop/keep.log": "x", "apis/shop/tmp/x": "x", "apis/shop/dist/x": "x", "apis/shop/node_modules/x": "x",
	})
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Join(top, "apis", "shop"), link))
	if way := open(t, link).InRepository(); way != "apis/shop" {
		t.Errorf("it is %q in its repository", way)
	}
	got, summary := packed(t, open(t, link))
	if want := []string{routes, "dist/x", "keep.log"}; !slices.Equal(keys(got), want) {
		t.Errorf("packed %q, want %q", keys(got), want)
	}
	want := []LeftOut{{"a.log", "../../.gitignore:1"}, {"node_modules/", "../../.gitignore:3"}, {"tmp/", "../.gitignore:2"}}
	if !slices.Equal(summary.LeftOut, want) {
		t.Errorf("left out %v, want %v", summary.LeftOut, want)
	}
	write(t, top, map[string]string{"apis/shop/" + ownIgnoreFile: "tmp"}) // and then none of git's counts, of the folders above neither
	got, _ = packed(t, open(t, link))
	if want := []string{ownIgnoreFile, "a.log", routes, "dist/x", "keep.log", "node_modules/x"}; !slices.Equal(keys(got), want) {
		t.Errorf("with an ignore file of its own packed %q, want %q", keys(got), want)
	}
}

func TestSummaryTellsWhatIsLeftOutAndWarnsOfConfiguration(t *testing.T) {
	_, summary := packed(t, made(t, map[string]string{
		routes: "{}", ".gitignore": "*.md\n\nconfig/policies.json\n", "a.md": "x", "config/policies.json": "{}", ".env.local": "x", "data.bin": strings.Repeat("x", 1000),
	}))
	want := Summary{
		Files: 3, Bytes: 1000 + 2 + int64(len("*.md\n\nconfig/policies.json\n")),
		LeftOut: []LeftOut{
			{".env.local", "secrets of this machine: set variables of the environment instead"},
			{"a.md", ".gitignore:1"},
			{"config/policies.json", ".gitignore:3"},
		},
		Warnings: []project.Problem{{File: "config/policies.json", Message: "This is left out by .gitignore:3, so that no build reads it. Correct that line."}},
	}
	if !reflect.DeepEqual(summary, want) {
		t.Errorf("%+v, want %+v", summary, want)
	}
	many := map[string]string{".gitignore": "*.log"}
	for i := range maxLeftOut + 7 {
		many[fmt.Sprintf("%04d.log", i)] = ""
	}
	if _, summary := packed(t, made(t, many)); len(summary.LeftOut) != maxLeftOut || summary.MoreLeftOut != 7 {
		t.Errorf("%d are told and %d more", len(summary.LeftOut), summary.MoreLeftOut)
	}
}

// TestArchiveIsTheSameForTheSameContent: whenever and wherever it is packed.
func TestArchiveIsTheSameForTheSameContent(t *testing.T) {
	files := map[string]string{routes: "{}", "b/c.txt": "c", "b.txt": "b", "a/": "", "é/" + strings.Repeat("long", 40) + ".txt": "x"}
	var archives [2]bytes.Buffer
	for i := range archives {
		p := made(t, files)
		must(t, os.Chmod(filepath.Join(p.Dir, "b.txt"), []os.FileMode{0o600, 0o640}[i]))
		written := time.Date(2020+i, 1, 1, 0, 0, 0, 0, time.UTC)
		must(t, os.Chtimes(filepath.Join(p.Dir, "b.txt"), written, written))
		p.Metadata = Metadata{Branch: "main", RepositoryURL: "https://git.example.com/shop", SHA: "abc"}
		_, err := p.Archive(t.Context(), &archives[i])
		must(t, err)
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("two archives of the same content differ")
	}
	if got := contents(t, archives[0].Bytes())[metadataFile]; got != `{"branch":"main","repoUrl":"https://git.example.com/shop","sha":"abc"}`+"\n" {
		t.Errorf("the metadata are %s", got)
	}
}

// TestFilesAreWhatIsUnpackedOfTheArchive: what is validated is what is deployed.
func TestFilesAreWhatIsUnpackedOfTheArchive(t *testing.T) {
	p := made(t, map[string]string{
		routes: `{"openapi":1}`, "config/b.oas.json": "{}", "config/policies.json": "{}", "gatewright.jsonc": "{}", "config/shop.oas.yaml": "x", "modules/a.js": "x",
		"config/linked.oas.json": "-> ../shared.json", "shared.json": `{"linked":true}`, "more": "-> config",
	})
	files, summary, err := p.Files(t.Context())
	must(t, err)
	var b bytes.Buffer
	packed, err := p.Archive(t.Context(), &b)
	must(t, err)
	unpacked, problems, err := project.Unpack(t.Context(), &b, project.DefaultLimits())
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if !reflect.DeepEqual(files, unpacked) || !reflect.DeepEqual(summary, packed) {
		t.Errorf("Files are %q with %+v, the archive has %q with %+v", files, summary, unpacked, packed)
	}
	if string(files["config/linked.oas.json"]) != `{"linked":true}` {
		t.Errorf("a link is read as %q", files["config/linked.oas.json"])
	}
}

func TestBadFoldersAreRefusedBeforeAnythingIsPacked(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("x"), 0o600))
	const leaveOut = " Leave out what the gateway does not need, such as node_modules and .git."
	for _, c := range []struct {
		name  string
		files map[string]string
		edit  func(t *testing.T, p *Project)
		want  []string
	}{
		{"a link out", map[string]string{"config/x.oas.json": "-> ../../up"}, func(t *testing.T, p *Project) {
			must(t, os.WriteFile(filepath.Join(p.Dir, "..", "up"), nil, 0o600))
		}, []string{"config/x.oas.json: This link leads out of the project, to ../../up. Put the file itself into the project, or leave the link out by a line in .gatewrightignore."}},
		{"an absolute link out", map[string]string{"x": "-> " + outside}, nil, []string{"x: This link leads out of the project, to " + outside + ". Put the file itself into the project, or leave the link out by a line in .gatewrightignore."}},
		{"a link to what is never uploaded", map[string]string{"x": "-> .env", ".env": "KEY=1"}, nil, []string{"x: This link leads to .env, which is never uploaded. Remove it, or leave it out by a line in .gatewrightignore."}},
		{"a link to nothing", map[string]string{"x": "-> gone"}, nil, []string{"x: This link leads nowhere: there is no gone. Correct it or remove it."}},
		{"a link to itself", map[string]string{"x": "-> x"}, nil, []string{"x: This link to x cannot be followed"}},
		{"a link to a folder that it is in", map[string]string{"a/b/c": "-> ../../a"}, nil, []string{"a/b/c: This link to ../../a leads to a folder that it is in itself, so that it has no end. Remove it."}},
		{"a socket", nil, func(t *testing.T, p *Project) {
			// A socket's path is short on every system.
			t.Chdir(p.Dir)
			l, err := net.Listen("unix", "s")
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, []string{"s: This is a device, a pipe or a socket. Remove it, or leave it out by a line in .gatewrightignore: a project holds files and folders only."}},
		{"a name that is no UTF-8", map[string]string{"a\xff": "x"}, nil, []string{"a\ufffd: This path has characters that a path in a project may not have. Use UTF-8 without control characters and backslashes."}},
		{"too many files", map[string]string{"1": "", "2": "", "3": "", "4": "", "5": ""}, func(_ *testing.T, p *Project) { p.limits.Files = 5 }, []string{`: This is over the budget "files": more than 5 files.` + leaveOut}},
		{"too much", map[string]string{"1": strings.Repeat("x", 3000)}, func(_ *testing.T, p *Project) { p.limits.UnpackedBytes = 3 << 10 }, []string{`: This is over the budget "unpacked": more than 3 KiB.` + leaveOut}},
		{"a file of the configuration that is too large", map[string]string{"config/big.oas.json": strings.Repeat("x", 3000)}, func(_ *testing.T, p *Project) { p.limits.FileBytes = 2 << 10 }, []string{`config/big.oas.json: This is over the budget "file": more than 2 KiB. Split it: config may hold several *.oas.json files.`}},
		{"folders that are too deep", map[string]string{"a/b/c/d/e/f/g": ""}, func(_ *testing.T, p *Project) { p.limits.PathDepth = 3 }, []string{`a/b/c/d: This is over the budget "folders": more than 3 segments. Flatten the folders.`}},
		{"an ignore file with an endless line", map[string]string{".gitignore": strings.Repeat("x", maxIgnoreLine+1)}, nil, []string{": Line 1 of .gitignore has more than 4096 bytes, which no pattern needs: shorten it."}},
		{"all at once", map[string]string{"b": "-> gone", "a": "-> gone"}, nil, []string{"a: This link leads nowhere: there is no gone. Correct it or remove it.", "b: This link leads nowhere: there is no gone. Correct it or remove it."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{routes: "{}"}
			maps.Copy(files, c.files)
			p := made(t, files)
			if c.edit != nil {
				c.edit(t, p)
			}
			got := refused(t, p)
			if len(got) != len(c.want) {
				t.Fatalf("refused for %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("refused for %q, want %q", got[i], want)
				}
			}
		})
	}
}

func TestUnreadableFilesAreRefused(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	p := made(t, map[string]string{routes: "{}", "a": "x"})
	must(t, os.Chmod(filepath.Join(p.Dir, routes), 0))
	if got := refused(t, p); !slices.Equal(got, []string{routes + ": This cannot be read: permission denied. Make it readable, or leave it out by a line in .gatewrightignore."}) {
		t.Errorf("refused for %q", got)
	}
}

// TestArchiveThatGetsTooLargeIsCutOff, by its size and by what it unpacks to.
func TestArchiveThatGetsTooLargeIsCutOff(t *testing.T) {
	p := made(t, map[string]string{"a": strings.Repeat("x", 1<<20), "b": "x"})
	for budget, limits := range map[string]func(*project.Limits){
		"archive": func(l *project.Limits) { l.CompressedBytes = 100 },
		"ratio":   func(l *project.Limits) { l.RatioAfter = 64 << 10 },
	} {
		p.limits = project.DefaultLimits()
		limits(&p.limits)
		_, err := p.Archive(t.Context(), io.Discard)
		if e, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(e.Error(), fmt.Sprintf("over the budget %q", budget)) {
			t.Errorf("%s: %v", budget, err)
		}
	}
}

func TestNamesThatDifferInCaseAloneAreWarnedOf(t *testing.T) {
	_, summary := packed(t, made(t, map[string]string{routes: "{}", "docs/A.md": "", "docs/a.md": ""}))
	want := []project.Problem{{File: "docs/a.md", Message: "This name and docs/A.md differ in case alone: where a machine takes them for one, as Windows and macOS do, one of them is lost. Rename one."}}
	if !slices.Equal(summary.Warnings, want) {
		t.Errorf("%v", summary.Warnings)
	}
}

// TestFileThatIsWrittenMeanwhileIsNotPacked: an archive holds no half of a file.
func TestFileThatIsWrittenMeanwhileIsNotPacked(t *testing.T) {
	for name, change := range map[string]func(at string) error{
		"longer":  func(at string) error { return os.WriteFile(at, []byte(strings.Repeat("y", 200_001)), 0o600) },
		"shorter": func(at string) error { return os.Truncate(at, 150_000) },
		"gone":    os.Remove,
		"replaced": func(at string) error {
			return errors.Join(os.Remove(at), os.WriteFile(at, make([]byte, 200_000), 0o600))
		},
	} {
		p := made(t, map[string]string{"a": "x", "b": strings.Repeat("x", 200_000)})
		// The first bytes are written once all is listed.
		first := true
		_, err := p.Archive(t.Context(), writer(func(b []byte) (int, error) {
			if first {
				first = false
				must(t, change(filepath.Join(p.Dir, "b")))
			}
			return len(b), nil
		}))
		if e, ok := errors.AsType[*ChangedError](err); !ok || e.File != "b" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestErrorsOfTheWriterAndTheContextAreTold(t *testing.T) {
	p := made(t, map[string]string{"a": "x"})
	full, ended := errors.New("no space left"), errors.New("interrupted")
	if _, err := p.Archive(t.Context(), writer(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Errorf("of the writer: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, err := p.Archive(ctx, io.Discard); !errors.Is(err, ended) {
		t.Errorf("of the context: %v", err)
	}
	if _, _, err := p.Files(ctx); !errors.Is(err, ended) {
		t.Errorf("of the context: %v", err)
	}
}

func TestWhatIsNoFolderIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{
		file:           fmt.Sprintf("%q is no folder: name the folder that config/ is in", file),
		file + "/none": "",
		file + "-none": fmt.Sprintf("there is no folder %q: name the folder that config/ is in", file+"-none"),
	} {
		if _, err := Open(t.Context(), dir); err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestLockFilesThatPointToThisNetworkAreLeftOut(t *testing.T) {
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
		_, summary := packed(t, made(t, map[string]string{routes: "{}", "web/package-lock.json": text, "web/notes.json": text}))
		var want []LeftOut
		if host != "" {
			want = []LeftOut{{"web/package-lock.json", "it points to a registry of this machine or network, " + host}}
		}
		if !slices.Equal(summary.LeftOut, want) {
			t.Errorf("%.80s: left out %v, want %v", text, summary.LeftOut, want)
		}
	}
}

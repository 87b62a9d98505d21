package folder

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// invalidFolder is the content of a project's folder that must be refused, and the beginning of each problem.
type invalidFolder struct {
	name  string
	files map[string]string
	edit  func(t *testing.T, p *Project)
	want  []string
}

func checkRefusals(t *testing.T, cases []invalidFolder) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{routes: "{}"}
			maps.Copy(files, c.files)
			p := newProject(t, files)
			if c.edit != nil {
				c.edit(t, p)
			}
			got := refusalProblems(t, p)
			if len(got) != len(c.want) {
				t.Fatalf("Files() problems = %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("Files() problem %d = %q, want one that begins with %q", i, got[i], want)
				}
			}
		})
	}
}

func TestInvalidLinkIsRefused(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("x"), 0o600))
	checkRefusals(t, []invalidFolder{
		{"link out of the project", map[string]string{"config/x.oas.json": "-> ../../up"}, func(t *testing.T, p *Project) {
			must(t, os.WriteFile(filepath.Join(p.Dir, "..", "up"), nil, 0o600))
		}, []string{"config/x.oas.json: This link leads out of the project, to ../../up. Put the file itself into the " +
			"project, or leave the link out by a line in .gatewrightignore."}},
		{
			"absolute link out of the project",
			map[string]string{"x": "-> " + outside},
			nil,
			[]string{"x: This link leads out of the project, to " + outside + ". Put the file itself into the project, or " +
				"leave the link out by a line in .gatewrightignore."},
		},
		{
			"link to an excluded file",
			map[string]string{"x": "-> .env", ".env": "KEY=1"},
			nil,
			[]string{"x: This link leads to .env, which is never uploaded. Remove it, or leave it out by a line in " +
				".gatewrightignore."},
		},
		{
			"link to a missing file",
			map[string]string{"x": "-> gone"},
			nil,
			[]string{"x: This link leads nowhere: there is no gone. Correct it or remove it."},
		},
		{"link to itself", map[string]string{"x": "-> x"}, nil, []string{"x: This link to x cannot be followed"}},
		{
			"link to a parent folder",
			map[string]string{"a/b/c": "-> ../../a"},
			nil,
			[]string{"a/b/c: This link to ../../a leads to a folder that it is in itself, so that it has no end. Remove it."},
		},
		{
			"two links to missing files",
			map[string]string{"b": "-> gone", "a": "-> gone"},
			nil,
			[]string{
				"a: This link leads nowhere: there is no gone. Correct it or remove it.",
				"b: This link leads nowhere: there is no gone. Correct it or remove it.",
			},
		},
	})
}

func TestInvalidFolderIsRefused(t *testing.T) {
	const advice = " Leave out what the gateway does not need, such as node_modules and .git."
	checkRefusals(t, []invalidFolder{
		{"a socket", nil, func(t *testing.T, p *Project) {
			// Use a relative path, because the maximum length of a socket's path is short on every system.
			t.Chdir(p.Dir)
			l, err := net.Listen("unix", "s")
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, []string{"s: This is a device, a pipe or a socket. Remove it, or leave it out by a line in .gatewrightignore: a " +
			"project holds files and folders only."}},
		{
			"name in invalid UTF-8",
			map[string]string{"a\xff": "x"},
			nil,
			[]string{"a\ufffd: This path has characters that a path in a project may not have. Use UTF-8 without control " +
				"characters and backslashes."},
		},
		{"too many files", map[string]string{"1": "", "2": "", "3": "", "4": "", "5": ""}, func(_ *testing.T, p *Project) {
			p.limits.Files = 5
		}, []string{`: This is over the budget "files": more than 5 files.` + advice}},
		{"too many bytes", map[string]string{"1": strings.Repeat("x", 3000)}, func(_ *testing.T, p *Project) {
			p.limits.UnpackedBytes = 3 << 10
		}, []string{`: This is over the budget "unpacked": more than 3 KiB.` + advice}},
		{
			"too large file of the configuration",
			map[string]string{"config/big.oas.json": strings.Repeat("x", 3000)},
			func(_ *testing.T, p *Project) {
				p.limits.FileBytes = 2 << 10
			},
			[]string{
				`config/big.oas.json: This is over the budget "file": more than 2 KiB. Split it: config may hold several ` +
					`*.oas.json files.`,
			},
		},
		{"too deep folders", map[string]string{"a/b/c/d/e/f/g": ""}, func(_ *testing.T, p *Project) {
			p.limits.PathDepth = 3
		}, []string{`a/b/c/d: This is over the budget "folders": more than 3 segments. Flatten the folders.`}},
		{
			"an ignore file with an endless line",
			map[string]string{".gitignore": strings.Repeat("x", maxIgnoreLine+1)},
			nil,
			[]string{": Line 1 of .gitignore has more than 4096 bytes, which no pattern needs: shorten it."},
		},
	})
}

func TestUnreadableFilesAreRefused(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	p := newProject(t, map[string]string{routes: "{}", "a": "x"})
	must(t, os.Chmod(filepath.Join(p.Dir, routes), 0))
	if got := refusalProblems(t, p); !slices.Equal(got, []string{routes + ": This cannot be read: permission denied. " +
		"Make it readable, or leave it out by a line in .gatewrightignore."}) {
		t.Errorf("Files() of an unreadable file: problems %q, want permission denied", got)
	}
}

// TestTooLargeArchiveIsRefused checks the limits of the compressed size and of the compression ratio.
func TestTooLargeArchiveIsRefused(t *testing.T) {
	p := newProject(t, map[string]string{"a": strings.Repeat("x", 1<<20), "b": "x"})
	for budget, limits := range map[string]func(*project.Limits){
		"archive": func(l *project.Limits) { l.CompressedBytes = 100 },
		"ratio":   func(l *project.Limits) { l.RatioAfter = 64 << 10 },
	} {
		p.limits = project.DefaultLimits()
		limits(&p.limits)
		_, err := p.Archive(t.Context(), io.Discard)
		if e, ok := errors.AsType[*RefusedError](err); !ok ||
			!strings.Contains(e.Error(), fmt.Sprintf("over the budget %q", budget)) {
			t.Errorf("%s: Archive() error = %v, want a *RefusedError that names the budget", budget, err)
		}
	}
}

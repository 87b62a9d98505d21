package project_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/project"
)

const routes = "config/routes.oas.json"

// entry is one entry of an archive in a test.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))}, content}
}

// special returns an entry without content, such as a folder or a link. link is the target of a link.
func special(name string, kind byte, link string) entry {
	return entry{tar.Header{Name: name, Typeflag: kind, Mode: 0o600, Linkname: link}, ""}
}

// newTar packs entries, with the two blocks of zeros at the end of a tar file.
func newTar(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipData(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newArchive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	return gzipData(t, newTar(t, entries...))
}

// sparse returns a tar file with a GNU sparse file in the old format, which claims a
// size but has no content. archive/tar can read such files, but cannot write them.
func sparse(t testing.TB, name string, size int64) []byte {
	t.Helper()
	block := newTar(t, file(name, ""))[:512]
	block[156] = 'S'
	copy(block[257:], "ustar  \x00")
	copy(block[345:], make([]byte, 155))
	copy(block[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
	copy(block[483:], fmt.Sprintf("%011o\x00", size))
	copy(block[148:], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(block, make([]byte, 1024)...)
}

func TestUnpackValidArchives(t *testing.T) {
	want := project.Files{routes: []byte("{}"), "config/policies.json": []byte("[]"), "gatewright.jsonc": []byte("//")}
	plain := []entry{
		file(routes, "{}"), file("config/policies.json", "[]"), file("gatewright.jsonc", "//"),
		file("modules/x.ts", "x"),
	}
	dotted := []entry{special("./", tar.TypeDir, ""), special("./config/", tar.TypeDir, "")}
	for _, e := range plain {
		e.Name = "./" + e.Name
		dotted = append(dotted, e)
	}
	long := file("docs/"+strings.Repeat("long-name/", 20)+"x.md", "x")
	for name, data := range map[string][]byte{
		"plain paths":        newArchive(t, plain...),
		"paths with a dot":   newArchive(t, dotted...),
		"a duplicate folder": newArchive(t, append(dotted, dotted[1])...),
		"the header of git archive": newArchive(t,
			append([]entry{{Header: tar.Header{
				Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header",
				PAXRecords: map[string]string{"comment": "0a1b2c"},
			}}}, plain...)...),
		"long names":                 newArchive(t, append(plain, long)...),
		"a tar file without its end": gzipData(t, newTar(t, plain...)[:len(newTar(t, plain...))-1024]),
		"a tar file with padding":    gzipData(t, append(newTar(t, plain...), make([]byte, 10<<10)...)),
		"several gzip members": slices.Concat(gzipData(t, newTar(t, plain...)[:700]),
			gzipData(t, newTar(t, plain...)[700:])),
		"files that are not kept": newArchive(t, append(plain, file("config/sub/other.jsonc", "x"),
			file("x/config/routes.oas", "x"), file("config/notes.txt", "x"))...),
		"the maximum of 9,999 files":    newArchive(t, append(slices.Clone(plain), numbered(9_995)...)...),
		"a large file that is not kept": newArchive(t, append(plain, file("docs/video", noise(4<<20)))...),
	} {
		t.Run(name, func(t *testing.T) {
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(data), project.DefaultLimits())
			if err != nil || len(problems) > 0 {
				t.Fatalf("Unpack() error = %v, problems %v, want none", err, problems)
			}
			if !maps.EqualFunc(files, want, bytes.Equal) {
				t.Errorf("Unpack() files = %q, want %q", files, want)
			}
		})
	}
}

// noise returns n bytes that cannot be compressed. It always returns the same bytes.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

// withContent returns the entries, all with the same content.
func withContent(entries []entry, content string) []entry {
	for i, e := range entries {
		entries[i] = file(e.Name, content)
	}
	return entries
}

// numbered returns n empty files.
func numbered(n int) []entry {
	out := make([]entry, n)
	for i := range out {
		out[i] = file(fmt.Sprintf("docs/%d.md", i), "")
	}
	return out
}

// badArchive is an invalid archive, with the problem that Unpack must report.
type badArchive struct {
	name   string
	data   []byte
	limits *project.Limits // nil for the default limits
	file   string          // the file of the problem
	want   string          // a part of the problem's message
}

// badPackings returns archives that are not exactly one complete tar file in gzip.
func badPackings(t *testing.T) []badArchive {
	t.Helper()
	good := newTar(t, file(routes, "{}"))
	packed := gzipData(t, good)
	noise := []byte(noise(64 << 10))
	damaged := slices.Clone(gzipData(t, newTar(t, file(routes, string(noise)))))
	damaged[len(damaged)/2] ^= 0xff
	checksum := slices.Clone(packed)
	checksum[len(checksum)-6] ^= 0xff
	header := slices.Clone(newTar(t, file("a", "x"), file("b", "x")))
	header[1024+10] ^= 0xff // a byte of the second entry's name, which the header's checksum includes
	return []badArchive{
		{name: "empty", data: nil, want: "not compressed with gzip"},
		{name: "a short text", data: []byte("bad\n"), want: "not compressed with gzip"},
		{name: "text", data: []byte(strings.Repeat("text ", 100)), want: "not compressed with gzip"},
		{name: "a zip file", data: append([]byte("PK\x03\x04"), noise...), want: "not compressed with gzip"},
		{name: "a bare tar file", data: good, want: "not compressed with gzip"},
		{name: "the beginning of a gzip header", data: packed[:5], want: "ends in the middle"},
		{name: "truncated", data: packed[:len(packed)/2], want: "ends in the middle"},
		{name: "truncated in gzip's last bytes", data: packed[:len(packed)-3], want: "ends in the middle"},
		{name: "a truncated tar file in complete gzip", data: gzipData(t, good[:300]), want: "ends in the middle"},
		{
			name: "truncated content in complete gzip", data: gzipData(t, newTar(t, file(routes, string(noise)))[:2000]),
			want: "ends in the middle",
		},
		{name: "damaged data", data: damaged, want: "is damaged"},
		{name: "a wrong checksum of gzip", data: checksum, want: "is damaged"},
		{name: "a wrong checksum of tar", data: gzipData(t, header), want: "is damaged"},
		{name: "gzip of an empty file", data: gzipData(t, nil), want: "holds no tar archive"},
		{name: "gzip of text", data: gzipData(t, []byte(strings.Repeat("text ", 300))), want: "holds no tar archive"},
		{
			name: "gzip of gzip", data: gzipData(t, gzipData(t, newTar(t, file(routes, string(noise))))),
			want: "holds no tar archive",
		},
		{
			name: "bytes after the end of gzip", data: append(slices.Clone(packed), "more than a header"...),
			want: "goes on after its end",
		},
		{
			name: "a tar file after the tar file", data: gzipData(t, append(slices.Clone(good), good...)),
			want: "goes on after its end",
		},
		{name: "a second gzip with a tar file", data: append(slices.Clone(packed), packed...), want: "goes on after its end"},
	}
}

// badEntries returns archives with an entry that is not allowed in a project.
func badEntries(t *testing.T) []badArchive {
	t.Helper()
	return []badArchive{
		{
			name: "traversal", data: newArchive(t, file("../etc/passwd", "x")), file: "../etc/passwd",
			want: "leads out of the project's folder",
		},
		{
			name: "traversal in the middle", data: newArchive(t, file("config/../../x", "x")), file: "config/../../x",
			want: "leads out of the project's folder",
		},
		{
			name: "traversal that stays inside", data: newArchive(t, file("a/../config/routes.oas.json", "x")),
			file: "a/../config/routes.oas.json", want: "leads out of the project's folder",
		},
		{
			name: "an absolute path", data: newArchive(t, file("/config/routes.oas.json", "x")), file: "/config/routes.oas.json",
			want: "is absolute",
		},
		{
			name: "a Windows path", data: newArchive(t, file(`config\routes.oas.json`, "x")), file: `config\routes.oas.json`,
			want: "characters that a path",
		},
		{
			name: "a control character", data: newArchive(t, file("config/\x1b[31m.oas.json", "x")),
			file: "config/\ufffd[31m.oas.json", want: "characters that a path",
		},
		{
			name: "a name that is not UTF-8", data: newArchive(t, file("config/\xff.oas.json", "x")),
			file: "config/\ufffd.oas.json", want: "characters that a path",
		},
		{
			name: "a path that is too long", data: newArchive(t, file(strings.Repeat("x", 600), "x")),
			file: strings.Repeat("x", 200) + "…", want: `the budget "path": more than 512 bytes`,
		},
		{
			name: "a path that is too deep", data: newArchive(t, file(strings.Repeat("x/", 40)+"y", "x")),
			file: strings.Repeat("x/", 40) + "y", want: `the budget "folders": more than 32 segments`,
		},
		{
			name: "folders that are too deep, each an entry", data: newArchive(t, levels(40)...), file: strings.Repeat("x/", 33),
			want: `the budget "folders"`,
		},
		{
			name: "a symbolic link", data: newArchive(t, special(routes, tar.TypeSymlink, "/etc/passwd")), file: routes,
			want: "is a link",
		},
		{
			name: "a hard link", data: newArchive(t, file("a", "x"), special(routes, tar.TypeLink, "a")), file: routes,
			want: "is a link",
		},
		{
			name: "a character device", data: newArchive(t, special("null", tar.TypeChar, "")), file: "null",
			want: "device or a pipe",
		},
		{
			name: "a block device", data: newArchive(t, special("sda", tar.TypeBlock, "")), file: "sda",
			want: "device or a pipe",
		},
		{
			name: "a named pipe", data: newArchive(t, special("pipe", tar.TypeFifo, "")), file: "pipe", want: "device or a pipe",
		},
		{name: "another kind of entry", data: newArchive(t, special("odd", 'V', "")), file: "odd", want: "no ordinary file"},
		{
			name: "a duplicate file", data: newArchive(t, file(routes, "{}"), file("./"+routes, "[]")), file: routes,
			want: "has this path twice",
		},
		{
			name: "a folder and a file of the same name", data: newArchive(t, special("a", tar.TypeDir, ""), file("a", "x")),
			file: "a", want: "has this path twice",
		},
	}
}

// hugeArchives returns archives that exceed a budget.
func hugeArchives(t *testing.T) []badArchive {
	t.Helper()
	good, noise := newTar(t, file(routes, "{}")), []byte(noise(64<<10))
	smallArchive := project.DefaultLimits()
	smallArchive.CompressedBytes = 32 << 10
	smallUnpacked := project.DefaultLimits()
	smallUnpacked.UnpackedBytes = 1 << 20
	smallConfig := project.DefaultLimits()
	smallConfig.FileBytes, smallConfig.ConfigBytes = 1<<10, 1<<11
	earlyRatio := project.DefaultLimits()
	earlyRatio.RatioAfter = 1 << 20
	return []badArchive{
		{name: "10,000 files", data: newArchive(t, numbered(10_000)...), want: `the budget "files": more than 9,999 files`},
		{
			name: "20,001 folders", data: newArchive(t, folders(20_001)...),
			want: `the budget "entries": more than 20,000 entries`,
		},
		{
			name: "too large", data: newArchive(t, file("a", string(noise))), limits: &smallArchive,
			want: `the budget "archive": more than `,
		},
		{
			name: "too large unpacked", data: newArchive(t, file("a", strings.Repeat(string(noise), 17))),
			limits: &smallUnpacked, want: `the budget "unpacked": more than 1 MiB`,
		},
		{
			name: "too large unpacked, with small files", data: newArchive(t, withContent(numbered(17), string(noise))...),
			limits: &smallUnpacked, want: `the budget "unpacked": more than 1 MiB`,
		},
		{
			name: "a zip bomb", data: newArchive(t, file("a", strings.Repeat("0", 2<<20))), limits: &earlyRatio,
			want: `the budget "ratio": more than 100 times`,
		},
		{
			name: "a bomb after the end", data: gzipData(t, append(slices.Clone(good), make([]byte, 2<<20)...)),
			limits: &earlyRatio, want: `the budget "ratio": more than 100 times`,
		},
		{
			name: "a sparse file of 4 GiB", data: gzipData(t, sparse(t, routes, 1<<32)),
			want: `the budget "unpacked": more than 512 MiB`,
		},
		{
			name: "a large file of the configuration", data: newArchive(t, file(routes, string(noise))), limits: &smallConfig,
			file: routes, want: `the budget "file": more than `,
		},
		{
			name: "large files of the configuration", data: newArchive(t, file("config/a.oas.json", string(noise[:1000])),
				file("config/b.oas.json", string(noise[:1000])), file("config/c.oas.json", string(noise[:1000]))),
			limits: &smallConfig, want: `the budget "configuration": more than `,
		},
	}
}

func TestUnpackRefusesInvalidArchives(t *testing.T) {
	for _, tt := range slices.Concat(badPackings(t), badEntries(t), hugeArchives(t)) {
		t.Run(tt.name, func(t *testing.T) {
			limits := project.DefaultLimits()
			if tt.limits != nil {
				limits = *tt.limits
			}
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(tt.data), limits)
			if err != nil {
				t.Fatalf("Unpack() error = %v, want a problem and no error", err)
			}
			if files != nil {
				t.Errorf("Unpack() with problems: files = %q, want none", slices.Collect(maps.Keys(files)))
			}
			if len(problems) != 1 || problems[0].File != tt.file || !strings.Contains(problems[0].Message, tt.want) {
				t.Errorf("Unpack() problems = %+v, want one of the file %q with %q", problems, tt.file, tt.want)
			}
		})
	}
}

// levels returns n nested folders.
func levels(n int) []entry {
	out := make([]entry, n)
	for i := range out {
		out[i] = special(strings.Repeat("x/", i+1), tar.TypeDir, "")
	}
	return out
}

func folders(n int) []entry {
	out := make([]entry, n)
	for i := range out {
		out[i] = special(fmt.Sprintf("%d/", i), tar.TypeDir, "")
	}
	return out
}

func TestAllInvalidEntriesAreReported(t *testing.T) {
	data := newArchive(t, file("/a", ""), special("b", tar.TypeFifo, ""), file("../c", ""), file(routes, "{}"))
	_, problems, err := project.Unpack(t.Context(), bytes.NewReader(data), project.DefaultLimits())
	if err != nil || len(problems) != 3 {
		t.Errorf("Unpack(3 invalid entries) = problems %+v, %v, want 3 problems and no error", problems, err)
	}
	var many []entry
	for i := range 1_000 {
		many = append(many, file(fmt.Sprintf("/%d", i), ""))
	}
	_, problems, err = project.Unpack(t.Context(), bytes.NewReader(newArchive(t, many...)), project.DefaultLimits())
	if err != nil || len(problems) != 51 {
		t.Errorf("Unpack(1,000 invalid entries) = %d problems, %v, want 50, one that says that there are more, and no error",
			len(problems), err)
	}
}

func TestUnreadableSourceIsAnError(t *testing.T) {
	errBroken := errors.New("the bucket does not answer")
	packed := newArchive(t, file(routes, "{}"))
	for _, n := range []int{0, 5, len(packed) / 2} {
		source := io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(errBroken))
		files, problems, err := project.Unpack(t.Context(), source, project.DefaultLimits())
		if !errors.Is(err, errBroken) || problems != nil || files != nil {
			t.Errorf("Unpack() of a source that breaks after %d bytes = %d files, %v, %v, want only %v",
				n, len(files), problems, err, errBroken)
		}
	}
}

func TestUnpackWithSmallReads(t *testing.T) {
	packed := newArchive(t, file(routes, "{}"), file("a/b", "c"))
	files, problems, err := project.Unpack(t.Context(), iotest.OneByteReader(bytes.NewReader(packed)),
		project.DefaultLimits())
	if err != nil || len(problems) > 0 || string(files[routes]) != "{}" {
		t.Errorf("Unpack() with small reads = %q, %v, %v, want the packed files and no error", files, problems, err)
	}
}

// TestUnpackReturnsPackedFiles packs arbitrary valid names and contents.
func TestUnpackReturnsPackedFiles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		contents := rapid.MapOf(
			rapid.SampledFrom([]string{
				"config/a.oas.json", "config/b.oas.json", "config/policies.json", "gatewright.jsonc",
				"x/y", "config/é ü.oas.json",
			}),
			rapid.SliceOfN(rapid.Byte(), 0, 3_000),
		).Draw(rt, "contents")
		var entries []entry
		for _, name := range slices.Sorted(maps.Keys(contents)) {
			entries = append(entries, file(name, string(contents[name])))
		}
		files, problems, err := project.Unpack(t.Context(), bytes.NewReader(newArchive(t, entries...)),
			project.DefaultLimits())
		if len(entries) == 0 {
			return // Unpack may refuse a tar file of only zeros or find it empty
		}
		if err != nil || len(problems) > 0 {
			rt.Fatalf("Unpack() error = %v, problems %v, want none", err, problems)
		}
		delete(contents, "x/y")
		if !maps.EqualFunc(files, contents, bytes.Equal) {
			rt.Fatalf("Unpack() files = %v, want %v", files, contents)
		}
	})
}

// FuzzUnpack looks for data that make Unpack panic, return both files and problems or none of them, or keep a file that
// the compiler does not read.
func FuzzUnpack(f *testing.F) {
	good := newTar(f, file(routes, "{}"), special("d/", tar.TypeDir, ""), file("d/x", "y"))
	f.Add(gzipData(f, good))
	f.Add(gzipData(f, good)[:40])
	f.Add(gzipData(f, sparse(f, routes, 1<<20)))
	f.Add(newArchive(f, special("l", tar.TypeSymlink, "/")))
	f.Add([]byte{0x1f, 0x8b})
	f.Add(good)
	limits := project.DefaultLimits()
	limits.UnpackedBytes, limits.FileBytes, limits.ConfigBytes = 4<<20, 1<<20, 1<<20
	f.Fuzz(func(t *testing.T, data []byte) {
		// Unpack the data once unchanged, and once as the content of a valid
		// gzip file. Otherwise the fuzzer would spend its time on checksums.
		for _, archive := range [][]byte{data, gzipData(t, data)} {
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(archive), limits)
			if err != nil {
				t.Fatalf("Unpack() error = %v, want none: the source does not fail", err)
			}
			if (files == nil) != (len(problems) > 0) {
				t.Fatalf("Unpack() = %d files and %d problems, want one of them", len(files), len(problems))
			}
			for name := range files {
				if name != "gatewright.jsonc" && !strings.HasPrefix(name, "config/") || strings.Contains(name, "..") &&
					!strings.HasSuffix(name, ".oas.json") {
					t.Fatalf("Unpack() keeps %q, want only gatewright.jsonc and files below config/", name)
				}
			}
			for _, p := range problems {
				if p.Message == "" {
					t.Fatalf("problem = %+v, want a message", p)
				}
			}
		}
	})
}

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

	"github.com/gatewright/gatewright/shared/project"
)

const routes = "config/routes.oas.json"

// entry is one entry of an archive under test.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))}, content}
}

func special(name string, kind byte, link string) entry {
	return entry{tar.Header{Name: name, Typeflag: kind, Mode: 0o600, Linkname: link}, ""}
}

// tarOf packs entries, with the two blocks of zeros that end a tar file.
func tarOf(t testing.TB, entries ...entry) []byte {
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

func gzipped(t testing.TB, data []byte) []byte {
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

func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	return gzipped(t, tarOf(t, entries...))
}

// sparse is a GNU sparse file in the old form, which claims a size and has no
// content; archive/tar reads but does not write such.
func sparse(t testing.TB, name string, size int64) []byte {
	t.Helper()
	block := tarOf(t, file(name, ""))[:512]
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

func TestGoodArchivesAreUnpacked(t *testing.T) {
	want := project.Files{routes: []byte("{}"), "config/policies.json": []byte("[]"), "gatewright.jsonc": []byte("//")}
	plain := []entry{file(routes, "{}"), file("config/policies.json", "[]"), file("gatewright.jsonc", "//"), file("modules/x.ts", "x")}
	dotted := []entry{special("./", tar.TypeDir, ""), special("./config/", tar.TypeDir, "")}
	for _, e := range plain {
		e.Name = "./" + e.Name
		dotted = append(dotted, e)
	}
	long := file("docs/"+strings.Repeat("long-name/", 20)+"x.md", "x")
	for name, data := range map[string][]byte{
		"paths as they are":           archiveOf(t, plain...),
		"paths with a dot":            archiveOf(t, dotted...),
		"a folder twice":              archiveOf(t, append(dotted, dotted[1])...),
		"the header of git archive":   archiveOf(t, append([]entry{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "0a1b2c"}}}}, plain...)...),
		"long names":                  archiveOf(t, append(plain, long)...),
		"a tar file without its end":  gzipped(t, tarOf(t, plain...)[:len(tarOf(t, plain...))-1024]),
		"a tar file with padding":     gzipped(t, append(tarOf(t, plain...), make([]byte, 10<<10)...)),
		"several gzip members":        slices.Concat(gzipped(t, tarOf(t, plain...)[:700]), gzipped(t, tarOf(t, plain...)[700:])),
		"files that are not kept":     archiveOf(t, append(plain, file("config/sub/other.oas.json", "x"), file("x/config/routes.oas.json", "x"), file("config/notes.txt", "x"))...),
		"9,999 files of the 9,999":    archiveOf(t, append(slices.Clone(plain), numbered(9_995)...)...),
		"a large file of other sorts": archiveOf(t, append(plain, file("docs/video", noise(4<<20)))...),
	} {
		t.Run(name, func(t *testing.T) {
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(data), project.DefaultLimits())
			if err != nil || len(problems) > 0 {
				t.Fatalf("error %v, problems %v", err, problems)
			}
			if !maps.EqualFunc(files, want, bytes.Equal) {
				t.Errorf("files %q", files)
			}
		})
	}
}

// noise is n bytes that do not compress, always the same.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

// each gives entries a content.
func each(entries []entry, content string) []entry {
	for i, e := range entries {
		entries[i] = file(e.Name, content)
	}
	return entries
}

func numbered(n int) []entry {
	out := make([]entry, n)
	for i := range out {
		out[i] = file(fmt.Sprintf("docs/%d.md", i), "")
	}
	return out
}

func TestBadArchivesAreRefused(t *testing.T) {
	good := tarOf(t, file(routes, "{}"))
	packed := gzipped(t, good)
	noise := []byte(noise(64 << 10))
	damaged := slices.Clone(gzipped(t, tarOf(t, file(routes, string(noise)))))
	damaged[len(damaged)/2] ^= 0xff
	checksum := slices.Clone(packed)
	checksum[len(checksum)-6] ^= 0xff
	header := slices.Clone(tarOf(t, file("a", "x"), file("b", "x")))
	header[1024+10] ^= 0xff // the second entry's name, which its checksum covers
	small := project.DefaultLimits()
	small.CompressedBytes = 32 << 10
	tight := project.DefaultLimits()
	tight.UnpackedBytes = 1 << 20
	keep := project.DefaultLimits()
	keep.FileBytes, keep.KeptBytes = 1<<10, 1<<11
	deflated := project.DefaultLimits()
	deflated.RatioAfter = 1 << 20

	for _, tt := range []struct {
		name   string
		data   []byte
		limits *project.Limits
		file   string
		want   string
	}{
		{name: "empty", data: nil, want: "not compressed with gzip"},
		{name: "a short text", data: []byte("bad\n"), want: "not compressed with gzip"},
		{name: "text", data: []byte(strings.Repeat("text ", 100)), want: "not compressed with gzip"},
		{name: "a zip file", data: append([]byte("PK\x03\x04"), noise...), want: "not compressed with gzip"},
		{name: "a bare tar file", data: good, want: "not compressed with gzip"},
		{name: "the beginning of a gzip header", data: packed[:5], want: "ends in the middle"},
		{name: "truncated", data: packed[:len(packed)/2], want: "ends in the middle"},
		{name: "truncated in gzip's last bytes", data: packed[:len(packed)-3], want: "ends in the middle"},
		{name: "a truncated tar file in a whole gzip", data: gzipped(t, good[:300]), want: "ends in the middle"},
		{name: "a truncated content in a whole gzip", data: gzipped(t, tarOf(t, file(routes, string(noise)))[:2000]), want: "ends in the middle"},
		{name: "damaged data", data: damaged, want: "is damaged"},
		{name: "a wrong checksum of gzip", data: checksum, want: "is damaged"},
		{name: "a wrong checksum of tar", data: gzipped(t, header), want: "is damaged"},
		{name: "gzip of an empty file", data: gzipped(t, nil), want: "holds no tar archive"},
		{name: "gzip of text", data: gzipped(t, []byte(strings.Repeat("text ", 300))), want: "holds no tar archive"},
		{name: "gzip of gzip", data: gzipped(t, gzipped(t, tarOf(t, file(routes, string(noise))))), want: "holds no tar archive"},
		{name: "bytes after the end of gzip", data: append(slices.Clone(packed), "more than a header"...), want: "goes on after its end"},
		{name: "a tar file after the tar file", data: gzipped(t, append(slices.Clone(good), good...)), want: "goes on after its end"},
		{name: "a second gzip with a tar file", data: append(slices.Clone(packed), packed...), want: "goes on after its end"},
		{name: "traversal", data: archiveOf(t, file("../etc/passwd", "x")), file: "../etc/passwd", want: "leads out of the project's folder"},
		{name: "traversal in the middle", data: archiveOf(t, file("config/../../x", "x")), file: "config/../../x", want: "leads out of the project's folder"},
		{name: "traversal that stays inside", data: archiveOf(t, file("a/../config/routes.oas.json", "x")), file: "a/../config/routes.oas.json", want: "leads out of the project's folder"},
		{name: "an absolute path", data: archiveOf(t, file("/config/routes.oas.json", "x")), file: "/config/routes.oas.json", want: "is absolute"},
		{name: "a path of Windows", data: archiveOf(t, file(`config\routes.oas.json`, "x")), file: `config\routes.oas.json`, want: "characters that a path"},
		{name: "a control character", data: archiveOf(t, file("config/\x1b[31m.oas.json", "x")), file: "config/\ufffd[31m.oas.json", want: "characters that a path"},
		{name: "a name that is no UTF-8", data: archiveOf(t, file("config/\xff.oas.json", "x")), file: "config/\ufffd.oas.json", want: "characters that a path"},
		{name: "a path that is too long", data: archiveOf(t, file(strings.Repeat("x", 600), "x")), file: strings.Repeat("x", 200) + "…", want: `the budget "path": more than 512 bytes`},
		{name: "a path that is too deep", data: archiveOf(t, file(strings.Repeat("x/", 40)+"y", "x")), file: strings.Repeat("x/", 40) + "y", want: `the budget "folders": more than 32 segments`},
		{name: "folders that are too deep, each an entry", data: archiveOf(t, levels(40)...), file: strings.Repeat("x/", 33), want: `the budget "folders"`},
		{name: "a symbolic link", data: archiveOf(t, special(routes, tar.TypeSymlink, "/etc/passwd")), file: routes, want: "is a link"},
		{name: "a hard link", data: archiveOf(t, file("a", "x"), special(routes, tar.TypeLink, "a")), file: routes, want: "is a link"},
		{name: "a character device", data: archiveOf(t, special("null", tar.TypeChar, "")), file: "null", want: "device or a pipe"},
		{name: "a block device", data: archiveOf(t, special("sda", tar.TypeBlock, "")), file: "sda", want: "device or a pipe"},
		{name: "a named pipe", data: archiveOf(t, special("pipe", tar.TypeFifo, "")), file: "pipe", want: "device or a pipe"},
		{name: "another kind of entry", data: archiveOf(t, special("odd", 'V', "")), file: "odd", want: "no ordinary file"},
		{name: "a file twice", data: archiveOf(t, file(routes, "{}"), file("./"+routes, "[]")), file: routes, want: "has this path twice"},
		{name: "a folder and a file of one name", data: archiveOf(t, special("a", tar.TypeDir, ""), file("a", "x")), file: "a", want: "has this path twice"},
		{name: "10,000 files", data: archiveOf(t, numbered(10_000)...), want: `the budget "files": more than 9,999 files`},
		{name: "20,001 folders", data: archiveOf(t, folders(20_001)...), want: `the budget "entries": more than 20,000 entries`},
		{name: "too large", data: archiveOf(t, file("a", string(noise))), limits: &small, want: `the budget "archive": more than `},
		{name: "too large unpacked", data: archiveOf(t, file("a", strings.Repeat(string(noise), 17))), limits: &tight, want: `the budget "unpacked": more than 1 MiB`},
		{name: "too large unpacked, of small files", data: archiveOf(t, each(numbered(17), string(noise))...), limits: &tight, want: `the budget "unpacked": more than 1 MiB`},
		{name: "a zip bomb", data: archiveOf(t, file("a", strings.Repeat("0", 2<<20))), limits: &deflated, want: `the budget "ratio": more than 100 times`},
		{name: "a bomb behind the end", data: gzipped(t, append(slices.Clone(good), make([]byte, 2<<20)...)), limits: &deflated, want: `the budget "ratio": more than 100 times`},
		{name: "a sparse file of a petabyte", data: gzipped(t, sparse(t, routes, 1<<32)), want: `the budget "unpacked": more than 512 MiB`},
		{name: "a large file of the configuration", data: archiveOf(t, file(routes, string(noise))), limits: &keep, file: routes, want: `the budget "file": more than `},
		{name: "large files of the configuration", data: archiveOf(t, file("config/a.oas.json", string(noise[:1000])), file("config/b.oas.json", string(noise[:1000])), file("config/c.oas.json", string(noise[:1000]))), limits: &keep, want: `the budget "configuration": more than `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limits := project.DefaultLimits()
			if tt.limits != nil {
				limits = *tt.limits
			}
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(tt.data), limits)
			if err != nil {
				t.Fatal(err)
			}
			if files != nil {
				t.Errorf("files %q beside the problems", slices.Collect(maps.Keys(files)))
			}
			if len(problems) != 1 || problems[0].File != tt.file || !strings.Contains(problems[0].Message, tt.want) {
				t.Errorf("problems %+v, want one of %q with %q", problems, tt.file, tt.want)
			}
		})
	}
}

// levels are a folder, one within it, and so on.
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

func TestAllBadEntriesAreToldAtOnce(t *testing.T) {
	data := archiveOf(t, file("/a", ""), special("b", tar.TypeFifo, ""), file("../c", ""), file(routes, "{}"))
	_, problems, err := project.Unpack(t.Context(), bytes.NewReader(data), project.DefaultLimits())
	if err != nil || len(problems) != 3 {
		t.Errorf("error %v, problems %+v, want 3", err, problems)
	}
	var many []entry
	for i := range 1_000 {
		many = append(many, file(fmt.Sprintf("/%d", i), ""))
	}
	_, problems, err = project.Unpack(t.Context(), bytes.NewReader(archiveOf(t, many...)), project.DefaultLimits())
	if err != nil || len(problems) != 51 {
		t.Errorf("error %v, %d problems, want 50 and one that says so", err, len(problems))
	}
}

func TestUnreadableSourceIsAnErrorAndNoProblem(t *testing.T) {
	broken := errors.New("the bucket does not answer")
	packed := archiveOf(t, file(routes, "{}"))
	for _, n := range []int{0, 5, len(packed) / 2} {
		source := io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(broken))
		files, problems, err := project.Unpack(t.Context(), source, project.DefaultLimits())
		if !errors.Is(err, broken) || problems != nil || files != nil {
			t.Errorf("after %d bytes: error %v, problems %v", n, err, problems)
		}
	}
}

func TestSmallReadsChangeNothing(t *testing.T) {
	packed := archiveOf(t, file(routes, "{}"), file("a/b", "c"))
	files, problems, err := project.Unpack(t.Context(), iotest.OneByteReader(bytes.NewReader(packed)), project.DefaultLimits())
	if err != nil || len(problems) > 0 || string(files[routes]) != "{}" {
		t.Errorf("error %v, problems %v, files %q", err, problems, files)
	}
}

// TestKeptFilesAreThoseThatWerePacked packs any good names and contents.
func TestKeptFilesAreThoseThatWerePacked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		contents := rapid.MapOf(
			rapid.SampledFrom([]string{"config/a.oas.json", "config/b.oas.json", "config/policies.json", "gatewright.jsonc", "x/y", "config/é ü.oas.json"}),
			rapid.SliceOfN(rapid.Byte(), 0, 3_000),
		).Draw(rt, "contents")
		var entries []entry
		for _, name := range slices.Sorted(maps.Keys(contents)) {
			entries = append(entries, file(name, string(contents[name])))
		}
		files, problems, err := project.Unpack(t.Context(), bytes.NewReader(archiveOf(t, entries...)), project.DefaultLimits())
		if len(entries) == 0 {
			return // a tar file of nothing but zeros is refused or empty, either is fine
		}
		if err != nil || len(problems) > 0 {
			rt.Fatalf("error %v, problems %v", err, problems)
		}
		delete(contents, "x/y")
		if !maps.EqualFunc(files, contents, bytes.Equal) {
			rt.Fatalf("files %v, want %v", files, contents)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	good := tarOf(f, file(routes, "{}"), special("d/", tar.TypeDir, ""), file("d/x", "y"))
	f.Add(gzipped(f, good))
	f.Add(gzipped(f, good)[:40])
	f.Add(gzipped(f, sparse(f, routes, 1<<20)))
	f.Add(archiveOf(f, special("l", tar.TypeSymlink, "/")))
	f.Add([]byte{0x1f, 0x8b})
	f.Add(good)
	limits := project.DefaultLimits()
	limits.UnpackedBytes, limits.FileBytes, limits.KeptBytes = 4<<20, 1<<20, 1<<20
	f.Fuzz(func(t *testing.T, data []byte) {
		// As it comes, and as the content of a sound gzip, or the fuzzer would
		// spend its time on checksums.
		for _, archive := range [][]byte{data, gzipped(t, data)} {
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(archive), limits)
			if err != nil {
				t.Fatalf("an error of the source, which has none: %v", err)
			}
			if (files == nil) != (len(problems) > 0) {
				t.Fatalf("%d files and %d problems", len(files), len(problems))
			}
			for name := range files {
				if name != "gatewright.jsonc" && !strings.HasPrefix(name, "config/") || strings.Contains(name, "..") && !strings.HasSuffix(name, ".oas.json") {
					t.Fatalf("kept %q", name)
				}
			}
			for _, p := range problems {
				if p.Message == "" {
					t.Fatal("a problem without a message")
				}
			}
		}
	})
}

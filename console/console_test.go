package console_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/console"
)

// reference matches the name of a file in the page and in scripts.
var reference = regexp.MustCompile(`[a-z]+-[0-9A-Z]{8}\.[a-z]+`)

// TestBundleContainsReferencedFiles reads the archive of the repository, and checks that the page and the scripts do
// not name a missing file.
func TestBundleContainsReferencedFiles(t *testing.T) {
	site := console.Embedded()
	names := site.Names()
	referenced := map[string]bool{}
	read := func(name string, body []byte) {
		for _, other := range reference.FindAllString(string(body), -1) {
			referenced[other] = true
			if !slices.Contains(names, other) {
				t.Errorf("%s refers to %s, want only files of the bundle", name, other)
			}
		}
	}
	page := site.Page()
	if !bytes.Contains(page.Body, []byte(console.AssetsPlaceholder)) {
		t.Errorf("Page() = %q, want a page with %s", page.Body, console.AssetsPlaceholder)
	}
	read("the page", page.Body)
	for _, name := range names {
		if name == "index.html" {
			continue
		}
		file, ok := site.Asset(name)
		if !ok {
			t.Errorf("Asset(%s) reports false, want true", name)
		}
		if file.Brotli == nil {
			t.Errorf("Asset(%s) has no compressed copy, want one", name)
		}
		if strings.HasSuffix(name, ".js") {
			read(name, file.Body)
		}
	}
	for _, part := range []string{"main-", "icon-", "licenses-"} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, part) && referenced[name] }) {
			t.Errorf("the files refer to %v, want %s… among them", referenced, part)
		}
	}
}

// TestDamagedBundleIsRefused checks that Open returns an error for damaged copies of the repository's archive.
func TestDamagedBundleIsRefused(t *testing.T) {
	intact, err := os.ReadFile(console.FileName)
	if err != nil {
		t.Fatal(err)
	}
	site, err := console.Open(intact)
	if err != nil {
		t.Fatalf("Open(%s): %v", console.FileName, err)
	}
	for _, tt := range []struct {
		name    string
		archive func() []byte
		want    error
	}{
		{"empty", func() []byte { return nil }, zip.ErrFormat},
		{"first half only", func() []byte { return intact[:len(intact)/2] }, zip.ErrFormat},
		{"missing last byte", func() []byte { return intact[:len(intact)-1] }, nil},
		{"second half only", func() []byte { return intact[len(intact)/2:] }, nil},
		{"Git LFS pointer", func() []byte {
			return []byte("version https://git-lfs.github.com/spec/v1\n")
		}, zip.ErrFormat},
		{"changed bit in the page", func() []byte {
			corrupted := bytes.Clone(intact)
			corrupted[bytes.Index(corrupted, site.Page().Body)+20] ^= 1
			return corrupted
		}, zip.ErrChecksum},
		{"Windows line ends", func() []byte { return bytes.ReplaceAll(intact, []byte("\n"), []byte("\r\n")) }, nil},
		{"no page", func() []byte { return archive(t, zip.Store, "main-1A.js") }, nil},
		{"two pages", func() []byte { return archive(t, zip.Store, "index.html", "main-1A.js", "index.html") }, nil},
		{"a file in a folder", func() []byte { return archive(t, zip.Store, "index.html", "a/main-1A.js") }, nil},
		{"a file in the folder above", func() []byte { return archive(t, zip.Store, "index.html", "../main-1A.js") }, nil},
		{"compressed page", func() []byte { return archive(t, zip.Deflate, "index.html") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := console.Open(tt.archive())
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Open() error = %v, want %v, or any error if this is <nil>", err, tt.want)
			}
		})
	}
}

// archive returns an archive with files that have the same text.
func archive(t *testing.T, method uint16, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		part, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = part.Write([]byte("a page"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

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

// TestBundleHasEveryFileThatItNames reads the archive of the repository: the page and the scripts must not name a missing file.
func TestBundleHasEveryFileThatItNames(t *testing.T) {
	site := console.Embedded()
	names := site.Names()
	named := map[string]bool{}
	read := func(name string, body []byte) {
		for _, other := range reference.FindAllString(string(body), -1) {
			named[other] = true
			if !slices.Contains(names, other) {
				t.Errorf("%s names %s, which is not in the bundle", name, other)
			}
		}
	}
	page := site.Page()
	if !bytes.Contains(page.Body, []byte(console.AssetsMark)) {
		t.Errorf("Page() = %q, want a page with %s", page.Body, console.AssetsMark)
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
			t.Errorf("Asset(%s) has no compressed copy", name)
		}
		if strings.HasSuffix(name, ".js") {
			read(name, file.Body)
		}
	}
	for _, part := range []string{"main-", "icon-", "licenses-"} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, part) && named[name] }) {
			t.Errorf("the page names no file %s…: it names %v", part, named)
		}
	}
}

// TestDamagedBundleIsRefused changes the archive of the repository in each way in which a file gets damaged.
func TestDamagedBundleIsRefused(t *testing.T) {
	whole, err := os.ReadFile(console.FileName)
	if err != nil {
		t.Fatal(err)
	}
	site, err := console.Open(whole)
	if err != nil {
		t.Fatalf("Open(%s): %v", console.FileName, err)
	}
	for _, tt := range []struct {
		name    string
		archive func() []byte
		want    error
	}{
		{"empty", func() []byte { return nil }, zip.ErrFormat},
		{"half", func() []byte { return whole[:len(whole)/2] }, zip.ErrFormat},
		{"the last byte is missing", func() []byte { return whole[:len(whole)-1] }, nil},
		{"the first half is missing", func() []byte { return whole[len(whole)/2:] }, nil},
		{"a pointer of Git LFS", func() []byte { return []byte("version https://git-lfs.github.com/spec/v1\n") }, zip.ErrFormat},
		{"one bit of the page", func() []byte {
			changed := bytes.Clone(whole)
			changed[bytes.Index(changed, site.Page().Body)+20] ^= 1
			return changed
		}, zip.ErrChecksum},
		{"line ends as on Windows", func() []byte { return bytes.ReplaceAll(whole, []byte("\n"), []byte("\r\n")) }, nil},
		{"no page", func() []byte { return archive(t, zip.Store, "main-1A.js") }, nil},
		{"two pages", func() []byte { return archive(t, zip.Store, "index.html", "main-1A.js", "index.html") }, nil},
		{"a file in a folder", func() []byte { return archive(t, zip.Store, "index.html", "a/main-1A.js") }, nil},
		{"a file of a folder above", func() []byte { return archive(t, zip.Store, "index.html", "../main-1A.js") }, nil},
		{"compressed", func() []byte { return archive(t, zip.Deflate, "index.html") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := console.Open(tt.archive())
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Open() error = %v, want one (%v)", err, tt.want)
			}
		})
	}
}

// archive returns an archive with files of one text.
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

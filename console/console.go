// Package console contains the files of the console, the web page that shows the contents of an installation.
// They are in bundle.zip, which `make console` writes and the repository contains, so that a build of the
// product needs no npm. For each file, the archive also has a copy that is compressed with Brotli.
//
// This package serves nothing (functions/console does) and bundles nothing (console/build does). The reasons for
// the archive are in docs/decisions/0076-the-bundle-of-the-console-is-committed.md. There is only this file.
package console

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"slices"
	"strings"
)

// FileName is the name of the archive in this package's folder.
const FileName = "bundle.zip"

//go:embed bundle.zip
var bundle []byte

const (
	page             = "index.html"
	compressedSuffix = ".br"
)

// AssetsPlaceholder is the placeholder in the page for the address of the folder with the other files. The address must
// not end with a slash.
const AssetsPlaceholder = "{{assets}}"

// contentTypes has the content type of each file extension. The table of the operating system is not used.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".json": "application/json", ".webmanifest": "application/manifest+json", ".svg": "image/svg+xml", ".png": "image/png",
	".woff2": "font/woff2",
}

// File is a file that browsers request.
type File struct {
	// ContentType is the value of the header Content-Type.
	ContentType string
	// Body is the content. Do not change it.
	Body []byte
	// Brotli is Body compressed with Brotli (RFC 7932), or nil if the archive has no compressed copy. Do not change it.
	Brotli []byte
	// Immutable reports whether the name contains a digest of the content. Then a file with other content has another
	// name.
	Immutable bool
}

// Site is a console. It is safe for concurrent use.
type Site struct{ files map[string][]byte }

// Embedded returns the console that is embedded in the program. It panics if the archive is damaged; a test of this
// package detects that earlier.
func Embedded() Site {
	site, err := Open(bundle)
	if err != nil {
		panic(fmt.Sprintf("console/%s cannot be read: %v: run make console and build the program again", FileName, err))
	}
	return site
}

// Open returns the console in an archive. It reads all of the archive and returns an error if a byte of a file has
// changed. The files of the site share the archive's memory.
func Open(archive []byte) (Site, error) {
	zr, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return Site{}, fmt.Errorf("read the bundle of the console: %w", err)
	}
	files := map[string][]byte{}
	for _, f := range zr.File {
		start, err := f.DataOffset()
		if err != nil {
			return Site{}, fmt.Errorf("read %s of the bundle of the console: %w", f.Name, err)
		}
		if f.Method != zip.Store {
			return Site{}, fmt.Errorf("read %s of the bundle of the console: it is compressed", f.Name)
		}
		//nolint:gosec // G115: an offset is not negative
		remaining := uint64(len(archive)) - min(uint64(start), uint64(len(archive)))
		if f.UncompressedSize64 > remaining {
			return Site{}, fmt.Errorf("read %s of the bundle of the console: %w", f.Name, zip.ErrFormat)
		}
		body := archive[start:][:f.UncompressedSize64:f.UncompressedSize64]
		if crc32.ChecksumIEEE(body) != f.CRC32 {
			return Site{}, fmt.Errorf("read %s of the bundle of the console: %w", f.Name, zip.ErrChecksum)
		}
		// `make console` writes each name once, and no folders. If two files had the same name, the site would serve the
		// last one, and a check of the archive could have read the first.
		if files[f.Name] != nil || strings.ContainsAny(f.Name, `/\`) {
			return Site{}, fmt.Errorf("read the bundle of the console: %q exists twice, or is in a folder", f.Name)
		}
		files[f.Name] = body
	}
	if files[page] == nil {
		return Site{}, fmt.Errorf("read the bundle of the console: it has no %s", page)
	}
	return Site{files}, nil
}

// NewSite returns a console with these files, by name. index.html is the page.
func NewSite(files map[string][]byte) Site { return Site{files} }

// Names returns the names of all files, sorted, without compressed copies.
func (s Site) Names() []string {
	names := slices.Sorted(maps.Keys(s.files))
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, compressedSuffix) })
}

// Icon returns the name of the icon, or "" if the console has none. The name changes with the content of the icon.
func (s Site) Icon() string {
	for name := range s.files {
		if strings.HasPrefix(name, "icon-") && !strings.HasSuffix(name, compressedSuffix) {
			return name
		}
	}
	return ""
}

// Page returns the page, with AssetsPlaceholder in it and without a compressed copy.
func (s Site) Page() File { return s.file(page) }

// Asset returns the file with the given name. It returns false for the page, for a compressed copy, and if no file has
// the name.
func (s Site) Asset(name string) (File, bool) {
	if name == page || strings.HasSuffix(name, compressedSuffix) || s.files[name] == nil {
		return File{}, false
	}
	f := s.file(name)
	f.Immutable = true
	f.Brotli = s.files[name+compressedSuffix]
	return f, true
}

// file returns a file of the site with its content type, neither immutable nor with a compressed copy.
func (s Site) file(name string) File {
	kind, ok := contentTypes[path.Ext(name)]
	if !ok {
		kind = "application/octet-stream"
	}
	return File{ContentType: kind, Body: s.files[name]}
}

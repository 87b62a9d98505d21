// Package console has the files of the console, the web page that shows what an installation has: those that `make console`
// writes into dist, each with a copy that is compressed with Brotli beside it, or, where it has not run, the page dist.html, which says
// how to.
//
// What it is not: it serves nothing (functions/console does), and it builds nothing (console/build). dist is in no commit: what is
// bundled follows from what is.
package console

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// embedded has dist.html and dist.css always, and dist where it was built.
//
//go:embed dist*
var embedded embed.FS

const (
	folder = "dist"
	page   = "index.html"
	// unbuilt and its style stand in for the page.
	unbuilt, unbuiltStyle = "dist.html", "dist.css"
	compressed            = ".br"
)

// AssetsMark stands in the page for the address of the folder that has the other files, without a slash at its end.
const AssetsMark = "{{assets}}"

// ErrNoFile is the answer for a name that no file has.
var ErrNoFile = errors.New("console: there is no such file")

// types are what files are by the ends of their names, whatever the machine's own table says.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".txt": "text/plain; charset=utf-8",
	".json": "application/json", ".webmanifest": "application/manifest+json", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2",
}

// File is one that a browser asks for.
type File struct {
	// ContentType is what the file is.
	ContentType string
	Body        []byte
	// Brotli is Body compressed (RFC 7932), nil where there is no such copy.
	Brotli []byte
	// Immutable says that its name has its digest: another content has another name.
	Immutable bool
}

// Site is a console. It is safe for concurrent use.
type Site struct{ files fs.FS }

// Embedded is the console that the program was built with.
func Embedded() Site { return Site{embedded} }

// Of is the console in a folder that has dist, or what stands in for it.
func Of(files fs.FS) Site { return Site{files} }

// Built reports whether it is the real console.
func (s Site) Built() bool {
	_, err := fs.Stat(s.files, path.Join(folder, page))
	return err == nil
}

// Page gives the page, with AssetsMark in it.
func (s Site) Page() (File, error) {
	name := unbuilt
	if s.Built() {
		name = path.Join(folder, page)
	}
	return s.read(name)
}

// Asset gives a file that the page refers to by its name. It answers ErrNoFile for a name of none.
func (s Site) Asset(name string) (File, error) {
	switch {
	case name == unbuiltStyle:
		return s.read(name)
	case name == page, strings.HasSuffix(name, compressed), strings.ContainsAny(name, `/\`), !fs.ValidPath(name), name == ".":
		return File{}, ErrNoFile
	}
	f, err := s.read(path.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, ErrNoFile
	}
	if err != nil {
		return File{}, err
	}
	f.Immutable = true
	if f.Brotli, err = fs.ReadFile(s.files, path.Join(folder, name+compressed)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return File{}, fmt.Errorf("read a file of the console: %w", err)
	}
	return f, nil
}

func (s Site) read(name string) (File, error) {
	body, err := fs.ReadFile(s.files, name)
	if err != nil {
		return File{}, fmt.Errorf("read a file of the console: %w", err)
	}
	kind, ok := types[path.Ext(name)]
	if !ok {
		kind = "application/octet-stream"
	}
	return File{ContentType: kind, Body: body}, nil
}

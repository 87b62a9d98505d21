// Command archives makes what installs the product on a Linux machine with systemd: for each architecture
// a tar.gz of its binaries, the weights of the search, its unit, its licence and its notices, in the places where they belong.
//
//	tar -xzf gatewright-1.2.3-linux-amd64.tar.gz -C / --no-same-owner
//	systemctl enable --now gatewright@example.com
//
// The same binaries make the same bytes. What it is not: a package of a distribution, which would know what it
// replaces; a new version is unpacked over the old one. There is only this file; the unit is ../systemd.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/release"
)

func main() {
	tree := flag.String("tree", ".", "the checkout's folder")
	binaries := flag.String("binaries", "dist", "the folder with a folder of binaries for each architecture")
	out := flag.String("out", "dist", "the folder to write into")
	flag.Parse()
	for _, architecture := range []string{"amd64", "arm64"} {
		if err := write(*tree, *binaries, *out, architecture, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "archives:", err)
			os.Exit(1)
		}
	}
}

// written is the time of every file: that of a build would differ, and tar complains of none at all.
var written = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// write makes the archive of an architecture and tells its SHA-256 as sha256sum does.
func write(tree, binaries, out, architecture string, told io.Writer) error {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	// In /usr/local, which is not the distribution's. Folders are not named: those that there are keep their modes.
	type file struct {
		from, to string
		mode     int64
	}
	files := []file{
		{filepath.Join(binaries, architecture, "gatewright"), "usr/local/bin/gatewright", 0o755},
		{filepath.Join(binaries, architecture, "gatewright-server"), "usr/local/bin/gatewright-server", 0o755},
		{filepath.Join(tree, "packaging", "systemd", "gatewright@.service"), "usr/local/lib/systemd/system/gatewright@.service", 0o644},
		{filepath.Join(tree, "shared", "docsearch", "minilm", minilm.FileName), "usr/local/share/gatewright/" + minilm.FileName, 0o644},
		{filepath.Join(tree, "LICENSE"), "usr/local/share/doc/gatewright/LICENSE", 0o644},
		{filepath.Join(tree, "NOTICE"), "usr/local/share/doc/gatewright/NOTICE", 0o644},
	}
	pages, err := filepath.Glob(filepath.Join(binaries, "man", "*.1"))
	if err != nil || len(pages) == 0 {
		pages = []string{filepath.Join(binaries, "man", "gatewright.1")} // which is told below: nothing was written
	}
	for _, page := range pages {
		files = append(files, file{page, "usr/local/share/man/man1/" + filepath.Base(page), 0o644})
	}
	for _, f := range files {
		raw, err := os.ReadFile(f.from)
		if err != nil {
			return fmt.Errorf("read what is packed: %w", err)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.to, Mode: f.mode, Size: int64(len(raw)), ModTime: written, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("pack %s: %w", f.to, err)
		}
		if _, err := w.Write(raw); err != nil {
			return fmt.Errorf("pack %s: %w", f.to, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	path := filepath.Join(out, "gatewright-"+release.Version()+"-linux-"+architecture+".tar.gz")
	if err := os.WriteFile(path, packed.Bytes(), 0o644); err != nil { //nolint:gosec // G306: for everybody to read
		return fmt.Errorf("write an archive: %w", err)
	}
	_, _ = fmt.Fprintf(told, "%x  %s\n", sha256.Sum256(packed.Bytes()), path)
	return nil
}

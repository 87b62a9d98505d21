// Command archives writes the archives that install the product without a compiler. The archive for a system contains
// the binaries, the weights of the model that searches the documentation, the license texts, manual pages (not for
// Windows) and a systemd unit (only for Linux).
//
//	tar -xzf gatewright-1.2.3-linux-amd64.tar.gz -C / --no-same-owner
//	systemctl enable --now gatewright@example.com
//
// Archives for Linux and macOS contain usr/local, so that they install the product if they are unpacked at the root.
// The product also works in any other folder. Archives for Windows are zip files with one folder. From the same
// binaries, the command makes the same bytes.
//
// It makes no packages for Linux distributions. Users unpack a new version over the old version, and files that only
// the old version has remain. Read main.go for the files of an archive, and pack.go for its format.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

func main() {
	tree := flag.String("tree", ".", "the checkout's folder")
	binaries := flag.String("binaries", "dist",
		"the folder with LICENSES.txt, man, and a folder of binaries for each system")
	out := flag.String("out", "dist", "the folder to write the archives to")
	systems := flag.String("systems", "linux-amd64 linux-arm64", "the systems, separated by spaces")
	flag.Parse()
	for system := range strings.FieldsSeq(*systems) {
		if err := write(*tree, *binaries, *out, system, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "archives:", err)
			os.Exit(1)
		}
	}
}

// file is a file of an archive.
type file struct {
	// source is the path of the file on this machine, and name is its path in the archive, with slashes.
	source, name string
	mode         int64
}

// contents returns the files of the archive for a system, such as linux-amd64. Archives contain no folders, so that
// unpacking them does not change the modes of existing folders.
func contents(tree, binaries, system string) []file {
	goos, _, _ := strings.Cut(system, "-")
	// /usr/local is for software that the administrator installs. Linux distributions do not use it.
	prefix, suffix := "usr/local/", ""
	if goos == "windows" {
		prefix, suffix = archiveName(system)+"/", ".exe"
	}
	// Binaries for Linux are in a folder with the name of their architecture, from which images take them.
	binDir := filepath.Join(binaries, strings.TrimPrefix(system, "linux-"))
	var files []file
	for _, name := range []string{"gatewright", "gatewright-server"} {
		files = append(files, file{filepath.Join(binDir, name+suffix), prefix + "bin/" + name + suffix, 0o755})
	}
	if goos == "linux" {
		files = append(files, file{
			filepath.Join(tree, "packaging", "systemd", "gatewright@.service"),
			prefix + "lib/systemd/system/gatewright@.service", 0o644,
		})
	}
	files = append(files,
		file{
			filepath.Join(tree, "shared", "management", "docsearch", "minilm", minilm.FileName),
			prefix + "share/gatewright/" + minilm.FileName, 0o644,
		},
		file{filepath.Join(tree, "LICENSE"), prefix + "share/doc/gatewright/LICENSE", 0o644},
		file{filepath.Join(tree, "NOTICE"), prefix + "share/doc/gatewright/NOTICE", 0o644},
		file{filepath.Join(binaries, "LICENSES.txt"), prefix + "share/doc/gatewright/LICENSES.txt", 0o644},
	)
	if goos == "windows" {
		return files // Windows has no program that shows manual pages
	}
	pages, err := filepath.Glob(filepath.Join(binaries, "man", "*.1"))
	if err != nil || len(pages) == 0 {
		pages = []string{filepath.Join(binaries, "man", "gatewright.1")} // packing fails if this file is missing
	}
	for _, page := range pages {
		files = append(files, file{page, prefix + "share/man/man1/" + filepath.Base(page), 0o644})
	}
	return files
}

// archiveName returns the name of a system's archive without its suffix.
func archiveName(system string) string { return "gatewright-" + release.Version() + "-" + system }

// write writes the archive of a system, and prints its SHA-256 in the format of sha256sum.
func write(tree, binaries, out, system string, log io.Writer) error {
	files := contents(tree, binaries, system)
	pack, suffix := tarball, ".tar.gz"
	if strings.HasPrefix(system, "windows-") {
		pack, suffix = zipArchive, ".zip"
	}
	archive, err := pack(files)
	if err != nil {
		return err
	}
	name := filepath.Join(out, archiveName(system)+suffix)
	if err := os.WriteFile(name, archive, 0o644); err != nil { //nolint:gosec // G306: everybody may read it
		return fmt.Errorf("write an archive: %w", err)
	}
	_, _ = fmt.Fprintf(log, "%x  %s\n", sha256.Sum256(archive), name)
	return nil
}

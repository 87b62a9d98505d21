package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/infra/image"
)

// composeFile is the template of compose.yaml. VERSION and DIGEST are replaced by the version and the digest of the
// image.
//
//go:embed compose.yaml
var composeFile string

// programs are the names of the binaries in an archive.
var programs = []string{"gatewright", "gatewright-server"}

// releaseFolder returns the path of the release's folder.
func (o options) releaseFolder() string { return filepath.Join(o.out, o.version) }

// assemble writes the folder of the release. An incomplete release never has the final name, and an older release of
// the same version stays in its place until the new release is complete. If another release is being assembled in the
// same folder, it returns an error.
func (o options) assemble(ctx context.Context, notes string) (err error) {
	final := o.releaseFolder()
	folder, replaced := final+".unfinished", final+".replaced"
	if err := os.MkdirAll(o.out, 0o755); err != nil { //nolint:gosec // G301: for everybody to read
		return fmt.Errorf("create the folder of releases: %w", err)
	}
	lock := flock.New(filepath.Join(o.out, ".lock")) // the lock is released when the process ends
	if locked, err := lock.TryLock(); err != nil || !locked {
		return errors.Join(fmt.Errorf("another release is being written into %s: wait until it has ended", o.out), err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := errors.Join(os.RemoveAll(folder), os.RemoveAll(replaced), os.Mkdir(folder, 0o755)); err != nil { //nolint:gosec // G301: for everybody to read
		return fmt.Errorf("create the folder of the release: %w", err)
	}
	if err := errors.Join(o.addArchives(folder), o.addImages(folder)); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(o.buildDir, "LICENSES.txt"), filepath.Join(folder, "LICENSES.txt")); err != nil {
		return err
	}
	if err := write(filepath.Join(folder, "RELEASE-NOTES.md"), []byte(notes)); err != nil {
		return err
	}
	checksumList, err := checksums(folder)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(folder, checksumsFile), checksumList); err != nil {
		return err
	}
	if !o.dryRun {
		if err := o.sign(ctx, folder); err != nil {
			return err
		}
	}
	// Rename the older release before it is removed: a partly removed release would look like a release with fewer
	// files.
	if err := os.Rename(final, replaced); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rename the older release: %w", err)
	}
	if err := os.Rename(folder, final); err != nil {
		return fmt.Errorf("rename the folder of the release: %w", err)
	}
	if err := os.RemoveAll(replaced); err != nil {
		return fmt.Errorf("remove the older release: %w", err)
	}
	_, _ = fmt.Fprintf(o.output, "%s%s\n", checksumList, final)
	if o.dryRun {
		_, _ = fmt.Fprintln(o.output, "This was a dry run: the release has no tag and no signature. Do not publish it.")
	}
	return nil
}

// addArchives copies the archives of all systems, and writes the bills of materials of the programs in them.
func (o options) addArchives(folder string) error {
	for _, system := range o.systems {
		suffix, exe := ".tar.gz", ""
		if strings.HasPrefix(system, "windows-") {
			suffix, exe = ".zip", ".exe"
		}
		name := "gatewright-" + o.version + "-" + system + suffix
		if err := copyFile(filepath.Join(o.buildDir, name), filepath.Join(folder, name)); err != nil {
			return err
		}
		for _, program := range programs {
			bill, err := image.SBOM(filepath.Join(o.buildDir, strings.TrimPrefix(system, "linux-"), program+exe), o.version)
			if err != nil {
				return err
			}
			if err := write(filepath.Join(folder, program+"-"+o.version+"-"+system+".cdx.json"), bill); err != nil {
				return err
			}
		}
	}
	return nil
}

// addImages copies the images, and the bills of materials of the programs that are only in images. It also writes
// compose.yaml.
func (o options) addImages(folder string) error {
	images := filepath.Join(o.buildDir, "images")
	for _, service := range append([]string{""}, o.services...) {
		name := strings.TrimSuffix("gatewright-"+service, "-")
		if err := copyFile(filepath.Join(images, name+".tar"),
			filepath.Join(folder, name+"-"+o.version+"-image.tar")); err != nil {
			return err
		}
		for _, system := range o.systems {
			architecture, isLinux := strings.CutPrefix(system, "linux-")
			if !isLinux || service == "" {
				continue // there are only images for Linux, and addArchives has written the bills of the server
			}
			bill := filepath.Join(images, name+"-"+architecture+".cdx.json")
			if err := copyFile(bill, filepath.Join(folder, name+"-"+o.version+"-"+system+".cdx.json")); err != nil {
				return err
			}
		}
	}
	digest, err := imageDigest(filepath.Join(images, "gatewright", "index.json"))
	if err != nil {
		return err
	}
	text := strings.NewReplacer("VERSION", o.version, "DIGEST", digest).Replace(composeFile)
	return write(filepath.Join(folder, "compose.yaml"), []byte(text))
}

// imageDigest returns the digest of the only image in an OCI image layout. file is the index.json of the layout.
func imageDigest(file string) (string, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // G304: what make has built
	if err != nil {
		return "", fmt.Errorf("read the digest of an image: %w", err)
	}
	var index struct {
		Manifests []struct {
			Digest string `json:"digest"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return "", fmt.Errorf("read the digest of an image: %w", err)
	}
	if len(index.Manifests) != 1 {
		return "", fmt.Errorf("read the digest of an image: %s lists %d images instead of 1: run make image again", file,
			len(index.Manifests))
	}
	return index.Manifests[0].Digest, nil
}

// checksums returns the SHA-256 of each file in a folder, sorted by name, in the format of sha256sum.
func checksums(folder string) ([]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list the release: %w", err)
	}
	var out bytes.Buffer
	for _, e := range entries {
		file, err := os.Open(filepath.Join(folder, e.Name())) //nolint:gosec // G304: a file of the release
		if err != nil {
			return nil, fmt.Errorf("read a file of the release: %w", err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("read a file of the release: %w", err)
		}
		fmt.Fprintf(&out, "%x  %s\n", sum.Sum(nil), e.Name())
	}
	return out.Bytes(), nil
}

// copyFile copies a file that make has built.
func copyFile(from, to string) error {
	raw, err := os.ReadFile(from) //nolint:gosec // G304: what make has built
	if err != nil {
		return fmt.Errorf("read a file of the release: %w", err)
	}
	return write(to, raw)
}

// write writes a file that everybody can read.
func write(file string, raw []byte) error {
	if err := os.WriteFile(file, raw, 0o644); err != nil { //nolint:gosec // G306: for everybody to read
		return fmt.Errorf("write a file of the release: %w", err)
	}
	return nil
}

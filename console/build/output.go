package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// bundleName is the name of the archive in the console's folder. The package console embeds it.
// This program does not import that package, because it must be able to build a missing archive.
const bundleName = "bundle.zip"

// archive returns a zip file with these files. Its bytes depend only on the names and contents of the files: they are
// sorted, have no times and are not compressed. Another version of Go might compress the files to other bytes. Git also
// needs only half the space for each new version of the archive if it is not compressed.
func archive(files []file) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		part, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store})
		if err == nil {
			_, err = part.Write(f.body)
		}
		if err != nil {
			return nil, fmt.Errorf("add %s to the bundle: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish the bundle: %w", err)
	}
	return out.Bytes(), nil
}

// compare returns an error if the committed archive differs from the new one. name is the path of the committed
// archive.
func compare(name string, built []byte) error {
	const advice = "run make console and commit the file"
	committed, err := os.ReadFile(name) //nolint:gosec // it is the bundle's own file
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: %s", name, advice)
	}
	if err != nil {
		return fmt.Errorf("read the committed bundle: %w", err)
	}
	if bytes.Equal(committed, built) {
		return nil
	}
	return fmt.Errorf("%s is not what the sources build: %s: %s", name, difference(committed, built), advice)
}

// difference describes how the names in two archives differ, or says that only contents differ.
func difference(committed, built []byte) string {
	oldNames, err := names(committed)
	if err != nil {
		return fmt.Sprintf("it is damaged: %v", err)
	}
	newNames, err := names(built)
	if err != nil {
		return fmt.Sprintf("the new archive cannot be read: %v", err)
	}
	if slices.Equal(oldNames, newNames) {
		return "it has the same names with other contents"
	}
	only := func(names, others []string) string {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
		const maxShown = 3
		switch {
		case len(names) == 0:
			return "no other file"
		case len(names) > maxShown:
			return fmt.Sprintf("%s and %d more files", strings.Join(names[:maxShown], ", "), len(names)-maxShown)
		}
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("it has %s, and the sources build %s", only(oldNames, newNames), only(newNames, oldNames))
}

// names returns the names of the files in an archive, without compressed copies.
func names(archive []byte) ([]string, error) {
	zr, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range zr.File {
		if path.Ext(f.Name) != ".br" {
			all = append(all, f.Name)
		}
	}
	return all, nil
}

// replace writes a file completely or not at all, so that a killed build leaves the old file. If the file already has
// the content, replace does not write it, because a compiler could be reading the file.
func replace(name string, body []byte) error {
	current, err := os.ReadFile(name) //nolint:gosec // it is the bundle's own file
	if err == nil && bytes.Equal(current, body) {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".unfinished-*")
	if err != nil {
		return fmt.Errorf("create a temporary file next to %s: %w", name, err)
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // after the renaming the temporary file no longer exists
	_, err = temporary.Write(body)
	if err == nil {
		err = temporary.Chmod(0o644)
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

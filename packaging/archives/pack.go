package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// written is the modification time of every file. The time of the build would change the bytes, and tar warns about files
// without a time.
var written = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// tarball returns a tar archive of files, compressed with gzip.
func tarball(files []file) ([]byte, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, f := range files {
		raw, err := os.ReadFile(f.from)
		if err != nil {
			return nil, fmt.Errorf("read a file of an archive: %w", err)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.to, Mode: f.mode, Size: int64(len(raw)), ModTime: written, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.to, err)
		}
		if _, err := w.Write(raw); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.to, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return packed.Bytes(), nil
}

// zipped returns a zip archive of files.
func zipped(files []file) ([]byte, error) {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, f := range files {
		raw, err := os.ReadFile(f.from)
		if err != nil {
			return nil, fmt.Errorf("read a file of an archive: %w", err)
		}
		header := &zip.FileHeader{Name: f.to, Method: zip.Deflate, Modified: written}
		header.SetMode(fs.FileMode(f.mode)) //nolint:gosec // G115: the permissions above
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.to, err)
		}
		if _, err := entry.Write(raw); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.to, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return packed.Bytes(), nil
}

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

// archiveModTime is the modification time of every file. With the time of the build, each build would have other bytes,
// and tar warns about files without a time.
var archiveModTime = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// tarball returns a tar archive of files, compressed with gzip.
func tarball(files []file) ([]byte, error) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for _, f := range files {
		raw, err := os.ReadFile(f.source)
		if err != nil {
			return nil, fmt.Errorf("read a file of an archive: %w", err)
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(raw)),
			ModTime: archiveModTime, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := w.Write(raw); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return buf.Bytes(), nil
}

// zipArchive returns a zip archive of files.
func zipArchive(files []file) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range files {
		raw, err := os.ReadFile(f.source)
		if err != nil {
			return nil, fmt.Errorf("read a file of an archive: %w", err)
		}
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: archiveModTime}
		header.SetMode(fs.FileMode(f.mode)) //nolint:gosec // G115: permissions from contents
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := entry.Write(raw); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return buf.Bytes(), nil
}

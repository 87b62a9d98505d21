package project

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"iter"
)

// Entry is a file or a folder of a project that is not packed yet.
type Entry struct {
	// Header is the header that the archive will have for this entry.
	Header *tar.Header
	// Open opens the content. Gather calls it only for files that the compiler can read. It is nil for folders.
	Open func() (io.ReadCloser, error)
}

// Gather checks a project's entries before they are packed, with the same problems as Unpack. A client can therefore
// show before the upload what the server will refuse. Gather does not check limits that depend on the size of the
// packed archive; use SizeProblem for these. It opens the files that the compiler can read, and stops at the entry that
// exceeds a limit of the whole archive, or after maxRefusedEntries refused entries. Its error is an error of Open, of
// reading, of closing, or of the context.
func Gather(ctx context.Context, entries iter.Seq[Entry], limits Limits) (Files, []Problem, error) {
	u := newUnpacker(limits)
	var unpacked int64
	for e := range entries {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if unpacked += archivedSize(e.Header.Size); unpacked > limits.UnpackedBytes {
			return u.result(errUnpackedSize)
		}
		if err := u.gather(e); err != nil {
			return u.result(err)
		}
		if u.report.problems.len() >= maxRefusedEntries {
			return u.result(errManyProblems)
		}
	}
	return u.result(nil)
}

func (u *unpacker) gather(e Entry) error {
	content := &lazyReader{open: e.Open}
	err := u.readEntry(e.Header, content)
	if content.r != nil {
		if closeErr := content.r.Close(); err == nil && closeErr != nil {
			err = &sourceError{closeErr}
		}
	}
	return err
}

// archivedSize returns the size of a file in an archive: a header, and its content in whole blocks of 512 bytes.
func archivedSize(size int64) int64 { return 512 + (size+511)/512*512 }

// lazyReader opens the content of an entry at the first Read.
type lazyReader struct {
	open func() (io.ReadCloser, error)
	r    io.ReadCloser
}

func (lr *lazyReader) Read(p []byte) (int, error) {
	if lr.r == nil {
		content, err := lr.open()
		if err != nil {
			return 0, &sourceError{err}
		}
		lr.r = content
	}
	n, err := lr.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &sourceError{err}
	}
	return n, err
}

// SizeProblem returns the message of Unpack for an archive with these numbers of compressed and
// unpacked bytes. Callers use it while they pack. It returns "" if the archive is within the limits.
func (l Limits) SizeProblem(compressed, unpacked int64) string {
	u := newUnpacker(l)
	switch {
	case compressed > l.CompressedBytes:
		return u.explain(errCompressedSize)
	case unpacked > l.UnpackedBytes:
		return u.explain(errUnpackedSize)
	case unpacked > l.RatioAfter && unpacked/max(compressed, 1) > l.Ratio:
		return u.explain(errRatio)
	}
	return ""
}

// IsRelevant reports whether the compiler reads the file, or warns that it
// does not. Files that an upload omits by mistake are usually among these.
func IsRelevant(name string) bool { return isConfiguration(name) || isMisnamed(name) }

package project

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"iter"
)

// Entry is a file or a folder of a project that is no archive yet.
type Entry struct {
	// Header is what the archive will have of it.
	Header *tar.Header
	// Open opens its content; it is asked of files that the compiler reads, and nil for folders.
	Open func() (io.ReadCloser, error)
}

// Gather answers of a project's entries what Unpack answers of an archive of them, so that who packs a project knows
// before what will be refused, in the same words: all but what only the packed bytes tell (TooLarge). It opens the
// files that the compiler reads, and ends with the entry that is one too many. The error is that of an Open or of
// reading, or the context's.
func Gather(ctx context.Context, entries iter.Seq[Entry], limits Limits) (Files, []Problem, error) {
	u := unpackerOf(limits)
	var unpacked int64
	for e := range entries {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if unpacked += blocks(e.Header.Size); unpacked > limits.UnpackedBytes {
			return u.answer(errUnpackedSize)
		}
		if err := u.gather(e); err != nil {
			return u.answer(err)
		}
		if u.report.problems.len() >= archiveProblems {
			return u.answer(errManyProblems)
		}
	}
	return u.answer(nil)
}

func (u *unpacker) gather(e Entry) error {
	content := &opening{open: e.Open}
	err := u.entry(e.Header, content)
	if content.opened != nil {
		if closed := content.opened.Close(); err == nil && closed != nil {
			err = &sourceError{closed}
		}
	}
	return err
}

// blocks is what a file takes in an archive: a header, and its content in whole blocks of 512 bytes.
func blocks(size int64) int64 { return 512 + (size+511)/512*512 }

// opening opens what is read of it with the first read.
type opening struct {
	open   func() (io.ReadCloser, error)
	opened io.ReadCloser
}

func (o *opening) Read(p []byte) (int, error) {
	if o.opened == nil {
		r, err := o.open()
		if err != nil {
			return 0, &sourceError{err}
		}
		o.opened = r
	}
	n, err := o.opened.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &sourceError{err}
	}
	return n, err
}

// TooLarge answers what Unpack says of an archive of so many bytes that so many unpacked bytes are in, while it is
// packed: "" for one that is within the limits.
func (l Limits) TooLarge(compressed, unpacked int64) string {
	u := unpackerOf(l)
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

// IsRead reports whether the compiler reads the file, or warns that it does not: what is left out of an upload by
// mistake is most likely one of these.
func IsRead(name string) bool { return isConfiguration(name) || isMistaken(name) }

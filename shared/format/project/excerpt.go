package project

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ExcerptBytes is the maximum number of bytes of a file that an Excerpt shows.
const ExcerptBytes = 256 << 10

// Excerpt is a part of a configuration file of a project.
type Excerpt struct {
	// Text is the content of this part. Bytes that are not valid UTF-8 are replaced by U+FFFD.
	Text string
	// Line and Column are where Text begins in the file. Both begin at 1, and Column counts characters.
	Line, Column int
	// Before and After report whether the file continues before and after Text.
	Before, After bool
}

// ErrFileNotFound means that an archive is invalid or has no such file, or that the file is too large or must not be
// shown. Only files that the compiler reads can be shown, since other files of a project can contain secrets.
var ErrFileNotFound = errors.New("project: no such file of the configuration")

// ReadExcerpt reads the part of a file around a place from a project's archive. The archive may belong to a project
// that does not compile. ReadExcerpt applies the limits, and stops reading after the file. If the file does not
// have the line or column, it uses the last one. Its error is ErrFileNotFound, or an error of r or of the context.
func ReadExcerpt(ctx context.Context, r io.Reader, file string, line, column int, limits Limits) (Excerpt, error) {
	data, err := readFile(&countingReader{ctx: ctx, r: r, limit: limits.CompressedBytes}, file, limits)
	if e, ok := errors.AsType[*sourceError](err); ok {
		return Excerpt{}, fmt.Errorf("read an archive: %w", e.cause)
	}
	if err != nil {
		return Excerpt{}, ErrFileNotFound // an invalid archive has no files
	}
	return newExcerpt(bytes.TrimPrefix(data, byteOrderMark), line, column), nil
}

// readFile reads one file of an archive. file is the path of the file, or the path as problems show it (printable).
func readFile(source *countingReader, file string, limits Limits) ([]byte, error) {
	gz, err := gzip.NewReader(bufio.NewReaderSize(source, 64<<10))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(&ratioReader{r: gz, source: source, limits: limits})
	for range limits.Entries {
		header, err := archive.Next()
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		if header.Typeflag != tar.TypeReg || !isConfiguration(name) || name != file && printable(name) != file {
			continue
		}
		if header.Size > limits.FileBytes {
			return nil, ErrFileNotFound
		}
		return io.ReadAll(io.LimitReader(archive, header.Size))
	}
	return nil, errTooManyEntries
}

func newExcerpt(data []byte, line, column int) Excerpt {
	at := offsetAt(data, line, column)
	from := max(0, min(at-ExcerptBytes/2, len(data)-ExcerptBytes))
	to := min(len(data), from+ExcerptBytes)
	if from > 0 { // begin with a whole line if lines are short, and with a whole character
		if i := bytes.IndexByte(data[from:min(at, from+ExcerptBytes/4)], '\n'); i >= 0 {
			from += i + 1
		}
		for from < at && !utf8.RuneStart(data[from]) {
			from++
		}
	}
	if to < len(data) {
		last := max(at, to-ExcerptBytes/4)
		if i := bytes.LastIndexByte(data[last:to], '\n'); i >= 0 {
			to = last + i + 1
		}
		for to > at && !utf8.RuneStart(data[to]) {
			to--
		}
	}
	out := Excerpt{
		Text:   strings.ToValidUTF8(string(data[from:to]), string(unicode.ReplacementChar)),
		Before: from > 0, After: to < len(data),
	}
	out.Line, out.Column = newPositionCounter(data).position(from)
	return out
}

// offsetAt returns the offset of a line and a column of a text.
func offsetAt(data []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			break
		}
		at += i + 1
	}
	for ; column > 1 && at < len(data) && data[at] != '\n'; column-- {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}

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

// ExcerptBytes is the most that an Excerpt holds of its file.
const ExcerptBytes = 256 << 10

// Excerpt is a part of a file of a project's configuration.
type Excerpt struct {
	// Text is what the file has there; what of it is no UTF-8 is U+FFFD.
	Text string
	// Line and Column are where Text begins in the file, both from 1, the column in characters.
	Line, Column int
	// Before and After say that the file has more on either side.
	Before, After bool
}

// ErrNoFile says that an archive has no such file, or none that is shown: what the compiler reads is,
// and nothing else of a project, where secrets may be.
var ErrNoFile = errors.New("project: no such file of the configuration")

// ReadExcerpt reads the part of a file around a place out of a project's archive, which may be one that does not compile: no
// further than that file, and within limits. A line or a column that the file does not have is its last.
// It answers ErrNoFile, or an error of r or the context.
func ReadExcerpt(ctx context.Context, r io.Reader, file string, line, column int, limits Limits) (Excerpt, error) {
	data, err := readFile(&countingReader{ctx: ctx, r: r, limit: limits.CompressedBytes}, file, limits)
	if e, ok := errors.AsType[*sourceError](err); ok {
		return Excerpt{}, fmt.Errorf("read an archive: %w", e.cause)
	}
	if err != nil {
		return Excerpt{}, ErrNoFile // an archive that is none has no file
	}
	return excerptOf(bytes.TrimPrefix(data, byteOrderMark), line, column), nil
}

// readFile reads one file of an archive.
func readFile(source *countingReader, file string, limits Limits) ([]byte, error) {
	zip, err := gzip.NewReader(bufio.NewReaderSize(source, 64<<10))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(&ratioReader{r: zip, source: source, limits: limits})
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
			return nil, ErrNoFile
		}
		return io.ReadAll(io.LimitReader(archive, header.Size))
	}
	return nil, errTooManyFolders
}

func excerptOf(data []byte, line, column int) Excerpt {
	at := offsetOf(data, line, column)
	from := max(0, min(at-ExcerptBytes/2, len(data)-ExcerptBytes))
	to := min(len(data), from+ExcerptBytes)
	if from > 0 { // whole lines where they are short, and whole characters
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
	out.Line, out.Column = begin(data).to(from)
	return out
}

// offsetOf is where a line and a column of a text are.
func offsetOf(data []byte, line, column int) int {
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

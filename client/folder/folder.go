// Package folder reads a project's folder for an upload. It returns the files for the compiler, and writes the archive
// from which a deployment is built.
//
// The upload does not depend on the machine: ignore files have the same effect as in git, but the user's git settings
// have none. The same content produces the same bytes. Secrets (.env*), the data of git and of the local product, and
// ignored files are not uploaded. A folder that the builder would refuse is refused before it is packed, with the
// builder's messages (project.Gather).
//
// The package does not compile (see package validate) and sends nothing. Read folder.go first. walk.go decides which
// files are excluded or refused, ignore.go reads ignore files, and git.go reads the metadata of the repository. The
// rules are those of contract 3.2.
package folder

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/format/project"
)

// Project is a project's folder. It is safe for concurrent use as long as its fields do not change.
type Project struct {
	// Dir is the folder's absolute path.
	Dir string
	// Metadata describes the git repository. It is empty without a repository. The archive contains the metadata if Branch
	// is set.
	Metadata Metadata

	// realDir is Dir with symbolic links resolved, like paths in git.
	realDir string
	limits  project.Limits
}

// Open opens a folder and reads the metadata of its git repository, if there is one. If dir is not a folder, the error
// says what to do.
func Open(ctx context.Context, dir string) (*Project, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the project's folder: %w", err)
	}
	switch info, err := os.Stat(abs); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %q: name the folder that config/ is in", dir)
	case err != nil:
		return nil, fmt.Errorf("look at the project's folder %q: %w", dir, withoutPath(err))
	case !info.IsDir():
		return nil, fmt.Errorf("%q is no folder: name the folder that config/ is in", dir)
	}
	realDir, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("look at the project's folder %q: %w", dir, withoutPath(err))
	}
	return &Project{Dir: abs, Metadata: readMetadata(ctx, realDir), realDir: realDir, limits: project.DefaultLimits()}, nil
}

// Summary says which files of a folder are uploaded, and which are not.
type Summary struct {
	// Files is the number of uploaded files. Bytes is their total size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Excluded lists at most 1,000 paths that are not uploaded. The path of a folder includes all its content.
	// MoreExcluded is the number of further paths.
	Excluded     []ExcludedPath `json:"leftOut"`
	MoreExcluded int            `json:"moreLeftOut,omitempty"`
	// Warnings are probable mistakes, such as a configuration file that is excluded.
	Warnings []project.Problem `json:"warnings"`
}

// ExcludedPath is a file or a folder that is not uploaded.
type ExcludedPath struct {
	// Path is relative to the project's folder. The path of a folder ends in "/".
	Path string `json:"path"`
	// Reason is the rule that excludes the path, such as ".gitignore:3".
	Reason string `json:"why"`
}

// RefusedError has the problems that prevent the upload of a folder. The builder would report most of them for the
// archive. The others, such as unreadable files, exist only on this machine.
type RefusedError struct{ Problems []project.Problem }

func (e *RefusedError) Error() string {
	text := "the project's folder is refused"
	if len(e.Problems) == 0 {
		return text
	}
	if p := e.Problems[0]; p.File != "" {
		return text + ": " + p.File + ": " + p.Message
	}
	return text + ": " + e.Problems[0].Message
}

// ChangedError says that a file was written while it was read. The operation can be repeated.
type ChangedError struct{ File string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s changed while it was read: run this again once it is written", e.File)
}

// Files reads the files for the compiler, as project.Unpack returns them from the archive. Its error is a *RefusedError
// with the problems, a *ChangedError, the context's error, or an error of opening the folder.
func (p *Project) Files(ctx context.Context) (project.Files, Summary, error) {
	w, err := p.open()
	if err != nil {
		return nil, Summary{}, err
	}
	defer w.close()
	files, err := w.scan(ctx)
	return files, w.summary, err
}

// Archive writes the archive: a tar file that is compressed with gzip. The same content and metadata produce the same
// bytes. While it packs, only a part of one file is in memory. Archive detects the same errors as Files before it
// writes the first byte. If w returns an error, Archive returns an error that wraps it.
func (p *Project) Archive(ctx context.Context, w io.Writer) (Summary, error) {
	walk, err := p.open()
	if err != nil {
		return Summary{}, err
	}
	defer walk.close()
	if _, err := walk.scan(ctx); err != nil {
		return walk.summary, err
	}
	return walk.summary, walk.pack(ctx, w)
}

// maxGzipLag is the maximum number of bytes that gzip has accepted but not written yet. The number of written bytes can
// be too low by as much.
const maxGzipLag = 256 << 10

// pack writes the entries of a scan as an archive. It stops with a *RefusedError as soon as the archive is larger than
// the builder accepts.
func (w *walk) pack(ctx context.Context, dst io.Writer) error {
	compressed := &countingWriter{w: dst}
	gz := gzip.NewWriter(compressed)
	uncompressed := &countingWriter{w: gz}
	out := tar.NewWriter(uncompressed)
	for _, e := range w.entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := out.WriteHeader(e.header()); err != nil {
			return fmt.Errorf("pack %s: %w", e.name, err)
		}
		if err := w.copy(ctx, out, e); err != nil {
			return err
		}
		if message := w.limits.SizeProblem(compressed.n, 0) + w.limits.SizeProblem(compressed.n+maxGzipLag,
			uncompressed.n); message != "" {
			return newRefusedError(project.Problem{Message: message})
		}
	}
	if err := errors.Join(out.Close(), gz.Close()); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	if message := w.limits.SizeProblem(compressed.n, uncompressed.n); message != "" {
		return newRefusedError(project.Problem{Message: message})
	}
	return nil
}

// copy writes the content of a file to the archive.
func (w *walk) copy(ctx context.Context, dst io.Writer, e entry) error {
	if e.folder {
		return nil
	}
	content, err := w.openContent(e)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, &contextReader{ctx, content})
	if closeErr := content.Close(); err == nil {
		err = closeErr
	}
	if _, changed := errors.AsType[*ChangedError](err); changed || err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("pack %s: %w", e.name, err)
}

func newRefusedError(problems ...project.Problem) error { return &RefusedError{Problems: problems} }

// countingWriter counts written bytes.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // the reader is used for one copy
	r   io.Reader
}

func (cr *contextReader) Read(p []byte) (int, error) {
	if cr.ctx.Err() != nil {
		return 0, context.Cause(cr.ctx)
	}
	return cr.r.Read(p)
}

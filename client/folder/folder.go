// Package folder reads a project's folder as what is uploaded of it: the files that the compiler reads, and the archive
// that a deployment begins with.
//
// What is uploaded does not depend on whose machine it is: ignore files count as git reads them, settings of one user
// do not; the same content gives the same bytes. Secrets stay here (.env*), and so does all that no gateway needs. What
// the builder would refuse is refused before anything is packed, in the builder's words (project.Gather).
//
// What it is not: it does not compile (package validate does) and sends nothing. Read folder.go first; walk.go has what
// is left out and what is refused, ignore.go the ignore files, git.go what is told of the repository. The rules are
// those of contract 3.2.
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

	"github.com/gatewright/gatewright/shared/project"
)

// Project is a project's folder. It is safe for concurrent use as long as nobody changes its fields.
type Project struct {
	// Dir is the folder's absolute path.
	Dir string
	// Metadata are what its repository tells, nothing where there is none. A Branch that is set is packed.
	Metadata Metadata

	// realDir is Dir without links, by which git goes too.
	realDir string
	limits  project.Limits
}

// Open takes a folder, and asks git about it where there is a git. It answers an error that says what to do for what
// is no folder.
func Open(ctx context.Context, dir string) (*Project, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the project's folder: %w", err)
	}
	switch info, err := os.Stat(abs); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %q: name the folder that config/ is in", dir)
	case err != nil:
		return nil, fmt.Errorf("look at the project's folder %q: %w", dir, reason(err))
	case !info.IsDir():
		return nil, fmt.Errorf("%q is no folder: name the folder that config/ is in", dir)
	}
	realDir, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("look at the project's folder %q: %w", dir, reason(err))
	}
	return &Project{Dir: abs, Metadata: readMetadata(ctx, realDir), realDir: realDir, limits: project.DefaultLimits()}, nil
}

// Summary is what is uploaded of a folder, and what is not.
type Summary struct {
	// Files is how many files are uploaded, Bytes what they have together.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// LeftOut is what is not, at most 1,000 of it; a folder stands for all that is in it. MoreLeftOut counts the rest.
	LeftOut     []LeftOut `json:"leftOut"`
	MoreLeftOut int       `json:"moreLeftOut,omitempty"`
	// Warnings are what is probably not meant, such as a file of the configuration that is left out.
	Warnings []project.Problem `json:"warnings"`
}

// LeftOut is a file or a folder that is not uploaded.
type LeftOut struct {
	// Path is relative to the project's folder, with "/" at the end of a folder's.
	Path string `json:"path"`
	// Why names the rule, such as ".gitignore:3".
	Why string `json:"why"`
}

// RefusedError tells what is wrong with a folder, so that nothing of it is uploaded: what the builder would refuse of
// its archive, and what cannot be read.
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

// ChangedError tells of a file that was written while it was read. To run again is safe.
type ChangedError struct{ File string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s changed while it was read: run this again once it is written", e.File)
}

// Files reads what the compiler reads, as project.Unpack answers it of the archive. It answers a *RefusedError with
// all that is wrong, a *ChangedError or the context's error.
func (p *Project) Files(ctx context.Context) (project.Files, Summary, error) {
	w, err := p.open()
	if err != nil {
		return nil, Summary{}, err
	}
	defer w.close()
	files, err := w.scan(ctx)
	return files, w.summary, err
}

// Archive writes the archive: a tar file, compressed with gzip, whose bytes are the same for the same content and
// metadata. It holds one file's part at a time in memory. What can be told before is told before the first byte is
// written, as Files tells it; w's own errors come as they are.
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

// heldBack is the most that gzip has taken and not yet written: what is packed may be so much more than is counted.
const heldBack = 256 << 10

func (w *walk) pack(ctx context.Context, to io.Writer) error {
	packed := &counter{w: to}
	zip := gzip.NewWriter(packed)
	plain := &counter{w: zip}
	out := tar.NewWriter(plain)
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
		if message := w.limits.TooLarge(packed.n, 0) + w.limits.TooLarge(packed.n+heldBack, plain.n); message != "" {
			return refuse(project.Problem{Message: message})
		}
	}
	if err := errors.Join(out.Close(), zip.Close()); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	if message := w.limits.TooLarge(packed.n, plain.n); message != "" {
		return refuse(project.Problem{Message: message})
	}
	return nil
}

// copy packs a file's content.
func (w *walk) copy(ctx context.Context, to io.Writer, e entry) error {
	if e.folder {
		return nil
	}
	content, err := w.content(e)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, &interrupted{ctx, content})
	if closed := content.Close(); err == nil {
		err = closed
	}
	if _, changed := errors.AsType[*ChangedError](err); changed || err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("pack %s: %w", e.name, err)
}

func refuse(problems ...project.Problem) error { return &RefusedError{Problems: problems} }

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// interrupted ends with its context.
type interrupted struct {
	ctx context.Context //nolint:containedctx // it lives as long as one copy
	r   io.Reader
}

func (i *interrupted) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.r.Read(p)
}

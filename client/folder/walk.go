package folder

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/project"
)

const (
	// dataFolder holds what is the machine's own: the local product's data, with keys, and nothing of a project.
	dataFolder = ".gatewright"
	// metadataFile is the one file that an archive has in it.
	metadataFile = dataFolder + "/metadata.json"

	maxLeftOut  = 1_000
	maxProblems = 50
)

// entry is a file or a folder that is uploaded.
type entry struct {
	// name is its path from the project's folder, with slashes.
	name   string
	folder bool
	size   int64
	info   fs.FileInfo
	// data is the content of what is no file, nil for files.
	data []byte
}

// header is what the archive has of it: nothing of the machine that packs, nor of the time.
func (e entry) header() *tar.Header {
	h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: e.size, ModTime: time.Unix(0, 0)}
	if e.folder {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
	}
	return h
}

// walk is one reading of a folder.
type walk struct {
	dir      string // without links
	limits   project.Limits
	metadata Metadata
	root     *os.Root

	ignoreFile string
	rules      []rules
	// above are the folders that lead to where the walk is.
	above []fs.FileInfo
	// folded are the names so far in lower case.
	folded map[string]string

	entries  []entry
	problems []project.Problem
	summary  Summary
}

func (p *Project) open() (*walk, error) {
	root, err := os.OpenRoot(p.realDir)
	if err != nil {
		return nil, fmt.Errorf("open the project's folder %q: %w", p.Dir, reason(err))
	}
	return &walk{
		dir: p.realDir, limits: p.limits, metadata: p.Metadata, root: root, folded: map[string]string{},
		summary: Summary{LeftOut: []LeftOut{}, Warnings: []project.Problem{}},
	}, nil
}

func (w *walk) close() { _ = w.root.Close() } // nothing was written

// scan reads the folder, and answers what the compiler reads of it.
func (w *walk) scan(ctx context.Context) (project.Files, error) {
	if err := w.readRules(); err != nil {
		return nil, refuse(project.Problem{Message: sentence(err.Error())})
	}
	files, problems, err := project.Gather(ctx, w.gather(ctx), w.limits)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if problems = append(problems, w.problems...); len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b project.Problem) int { return cmp.Compare(a.File, b.File) })
		return nil, refuse(problems...)
	}
	return files, nil
}

// gather are the entries of the folder in the order of the archive, kept for the packing.
func (w *walk) gather(ctx context.Context) iter.Seq[project.Entry] {
	return func(yield func(project.Entry) bool) {
		take := func(e entry) bool {
			w.entries = append(w.entries, e)
			if !e.folder {
				w.summary.Files++
				w.summary.Bytes += e.size
			}
			return ctx.Err() == nil && yield(project.Entry{Header: e.header(), Open: func() (io.ReadCloser, error) { return w.content(e) }})
		}
		if data := w.metadata.encode(); data != nil && !take(entry{name: metadataFile, size: int64(len(data)), data: data}) {
			return
		}
		info, err := w.root.Stat(".")
		if err != nil {
			w.unreadable("", err)
			return
		}
		w.folder("", info, take)
	}
}

// folder takes what is in a folder, and reports whether to go on.
func (w *walk) folder(name string, info fs.FileInfo, take func(entry) bool) bool {
	w.above = append(w.above, info)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	has, err := w.readRulesOf(name)
	if err != nil {
		return w.refuse(name, sentence(err.Error()))
	}
	if has {
		defer func() { w.rules = w.rules[:len(w.rules)-1] }()
	}
	within, err := w.list(name)
	if err != nil {
		return w.unreadable(name, err)
	}
	for _, one := range within {
		if !w.visit(path.Join(name, one), take) {
			return false
		}
	}
	return true
}

// list are the names in a folder, sorted.
func (w *walk) list(name string) ([]string, error) {
	f, err := w.root.Open(cmp.Or(name, "."))
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// visit takes a file, or a folder with all that is in it.
func (w *walk) visit(name string, take func(entry) bool) bool {
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true // gone since the folder was listed
	}
	if err != nil {
		return w.unreadable(name, err)
	}
	if why := w.leftOut(name, info); why != "" {
		w.leave(name, info, why)
		return true
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		var wrong string
		if info, wrong = w.follow(name); wrong != "" {
			return w.refuse(name, wrong)
		}
	}
	w.warnOfCase(name)
	switch {
	case info.IsDir():
		if !take(entry{name: name, folder: true, info: info}) {
			return false
		}
		return strings.Count(name, "/") >= w.limits.PathDepth || w.folder(name, info, take)
	case !info.Mode().IsRegular():
		return w.refuse(name, "This is a device, a pipe or a socket. Remove it, or leave it out by a line in "+ownIgnoreFile+": a project holds files and folders only.")
	}
	if isLockFile(path.Base(name)) {
		host, err := w.privateRegistry(name)
		if err != nil {
			return w.unreadable(name, err)
		}
		if host != "" {
			w.leave(name, info, "it points to a registry of this machine or network, "+host)
			return true
		}
	}
	return take(entry{name: name, size: info.Size(), info: info})
}

// leftOut says why a path is not uploaded, "" if it is.
func (w *walk) leftOut(name string, info fs.FileInfo) string {
	if why := never(path.Base(name)); why != "" {
		return why
	}
	why, ignored := w.ignored(name, info.IsDir())
	if !ignored {
		return ""
	}
	if project.IsRead(name) || name == "config" {
		w.warn(name, "This is left out by "+why+", so that no build reads it. Correct that line.")
	}
	return why
}

// never says why nothing by that name is ever uploaded, "" for other names. Names are compared without case: on some
// machines it makes no difference.
func never(base string) string {
	switch base = strings.ToLower(base); {
	case base == ".git":
		return "git's own data"
	case base == dataFolder:
		return "data of the local product"
	case strings.HasPrefix(base, dataFolder+"-"): // of a command that was killed while it wrote a file with a key
		return "a part of a file that a command has not finished"
	case strings.HasPrefix(base, ".env"):
		return "secrets of this machine: set variables of the environment instead"
	}
	return ""
}

func (w *walk) leave(name string, info fs.FileInfo, why string) {
	if info.IsDir() {
		name += "/"
	}
	if len(w.summary.LeftOut) == maxLeftOut {
		w.summary.MoreLeftOut++
		return
	}
	w.summary.LeftOut = append(w.summary.LeftOut, LeftOut{name, why})
}

func (w *walk) warn(name, message string) {
	if len(w.summary.Warnings) < maxProblems {
		w.summary.Warnings = append(w.summary.Warnings, project.Problem{File: name, Message: message})
	}
}

// warnOfCase warns of two names that are one on another machine.
func (w *walk) warnOfCase(name string) {
	lower := strings.ToLower(name)
	if other, is := w.folded[lower]; is && other != name {
		w.warn(name, fmt.Sprintf("This name and %s differ in case alone: where a machine takes them for one, as Windows and macOS do, one of them is lost. Rename one.", other))
		return
	}
	w.folded[lower] = name
}

// follow answers what a link leads to within the project, or what is wrong with it.
func (w *walk) follow(name string) (fs.FileInfo, string) {
	target, _ := w.root.Readlink(name)
	to, err := filepath.EvalSymlinks(filepath.Join(w.dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Sprintf("This link leads nowhere: there is no %s. Correct it or remove it.", target)
	}
	if err != nil {
		return nil, fmt.Sprintf("This link to %s cannot be followed (%v). Correct it or remove it.", target, reason(err))
	}
	way, err := filepath.Rel(w.dir, to)
	if err != nil || way == ".." || strings.HasPrefix(way, ".."+string(filepath.Separator)) {
		return nil, fmt.Sprintf("This link leads out of the project, to %s. Put the file itself into the project, or leave the link out by a line in %s.", target, ownIgnoreFile)
	}
	for part := range strings.SplitSeq(filepath.ToSlash(way), "/") {
		if never(part) != "" {
			return nil, fmt.Sprintf("This link leads to %s, which is never uploaded. Remove it, or leave it out by a line in %s.", target, ownIgnoreFile)
		}
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, fmt.Sprintf("This link to %s is not relative. Make it one from its own folder (ln -sr makes such), so that it leads to the same everywhere.", target)
	}
	if info.IsDir() && slices.ContainsFunc(w.above, func(above fs.FileInfo) bool { return os.SameFile(above, info) }) {
		return nil, fmt.Sprintf("This link to %s leads to a folder that it is in itself, so that it has no end. Remove it.", target)
	}
	return info, ""
}

// unreadable notes that something cannot be read.
func (w *walk) unreadable(name string, err error) bool {
	return w.refuse(name, fmt.Sprintf("This cannot be read: %v. Make it readable, or leave it out by a line in %s.", reason(err), ownIgnoreFile))
}

// refuse notes a problem, and reports whether there is room for more.
func (w *walk) refuse(name, message string) bool {
	w.problems = append(w.problems, project.Problem{File: name, Message: message})
	return len(w.problems) < maxProblems
}

// content opens a file that is as it was when it was listed; a *ChangedError tells that it is not.
func (w *walk) content(e entry) (io.ReadCloser, error) {
	if e.data != nil {
		return io.NopCloser(bytes.NewReader(e.data)), nil
	}
	f, err := w.root.Open(e.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ChangedError{e.name}
	}
	if err != nil {
		return nil, refuse(project.Problem{File: e.name, Message: fmt.Sprintf("This cannot be read: %v. Make it readable, or leave it out by a line in %s.", reason(err), ownIgnoreFile)})
	}
	s := &steady{f: f, e: e, left: e.size}
	if !s.isAsListed() {
		return nil, errors.Join(&ChangedError{e.name}, f.Close())
	}
	return s, nil
}

// steady reads a file that nobody writes meanwhile.
type steady struct {
	f    *os.File
	e    entry
	left int64
}

func (s *steady) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.f.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.EOF) {
		return n, &ChangedError{s.e.name}
	}
	return n, err
}

// Close tells whether the file was written while it was read.
func (s *steady) Close() error {
	changed := !s.isAsListed()
	err := s.f.Close()
	if changed {
		return &ChangedError{s.e.name}
	}
	return err
}

func (s *steady) isAsListed() bool {
	info, err := s.f.Stat()
	return err == nil && os.SameFile(info, s.e.info) && info.Size() == s.e.size && info.ModTime().Equal(s.e.info.ModTime())
}

// reason is an error without the path that the message around it has already.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// sentence makes one of an error's text.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

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

	"github.com/gatewright/gatewright/shared/format/project"
)

const (
	// dataFolder is the folder for data of the local product on this machine, including keys. It contains nothing of the
	// project.
	dataFolder = ".gatewright"
	// metadataFile is the only file of dataFolder that an archive contains.
	metadataFile = dataFolder + "/metadata.json"

	maxExcluded = 1_000
	maxProblems = 50
)

// entry is a file or a folder for the upload.
type entry struct {
	// name is the path from the project's folder, with slashes.
	name   string
	folder bool
	size   int64
	// info describes the file when it was listed, or the target if the file is a link. It is nil for generated content.
	info fs.FileInfo
	// data is generated content. It is nil for a file on disk.
	data []byte
}

// header returns the tar header of an entry. It contains nothing that depends on the machine or the time.
func (e entry) header() *tar.Header {
	h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: e.size, ModTime: time.Unix(0, 0)}
	if e.folder {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
	}
	return h
}

// walk reads a project's folder once.
type walk struct {
	dir      string // path without symbolic links
	limits   project.Limits
	metadata Metadata
	root     *os.Root

	// ignoreFile is the name of the ignore files that are read within the project. rules are those of the ignore files
	// that apply to the current folder. Later files override earlier files.
	ignoreFile string
	rules      []ignoreRules
	// ancestors are the folders from the project's folder to the current folder.
	ancestors []fs.FileInfo
	// lowerNames has the names that were read so far, by their lower-case forms.
	lowerNames map[string]string

	entries  []entry
	problems []project.Problem
	summary  Summary
}

func (p *Project) open() (*walk, error) {
	root, err := os.OpenRoot(p.realDir)
	if err != nil {
		return nil, fmt.Errorf("open the project's folder %q: %w", p.Dir, withoutPath(err))
	}
	return &walk{
		dir: p.realDir, limits: p.limits, metadata: p.Metadata, root: root, lowerNames: map[string]string{},
		summary: Summary{Excluded: []ExcludedPath{}, Warnings: []project.Problem{}},
	}, nil
}

func (w *walk) close() { _ = w.root.Close() } // only reads were done

// scan reads the folder and returns the files for the compiler.
func (w *walk) scan(ctx context.Context) (project.Files, error) {
	if err := w.readRules(); err != nil {
		return nil, newRefusedError(project.Problem{Message: toSentence(err.Error())})
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
		return nil, newRefusedError(problems...)
	}
	return files, nil
}

// gather returns the entries of the folder in the order of the archive, and records them for packing.
func (w *walk) gather(ctx context.Context) iter.Seq[project.Entry] {
	return func(yield func(project.Entry) bool) {
		add := func(e entry) bool {
			w.entries = append(w.entries, e)
			if !e.folder {
				w.summary.Files++
				w.summary.Bytes += e.size
			}
			return ctx.Err() == nil && yield(project.Entry{Header: e.header(), Open: func() (io.ReadCloser, error) {
				return w.openContent(e)
			}})
		}
		if data := w.metadata.encode(); data != nil && !add(entry{name: metadataFile, size: int64(len(data)), data: data}) {
			return
		}
		info, err := w.root.Stat(".")
		if err != nil {
			w.reportUnreadable("", err)
			return
		}
		w.addFolder("", info, add)
	}
}

// addFolder adds the content of a folder. It returns false if the walk must stop.
func (w *walk) addFolder(name string, info fs.FileInfo, add func(entry) bool) bool {
	w.ancestors = append(w.ancestors, info)
	defer func() { w.ancestors = w.ancestors[:len(w.ancestors)-1] }()
	hasIgnoreFile, err := w.readFolderRules(name)
	if err != nil {
		return w.reportProblem(name, toSentence(err.Error()))
	}
	if hasIgnoreFile {
		defer func() { w.rules = w.rules[:len(w.rules)-1] }()
	}
	children, err := w.readNames(name)
	if err != nil {
		return w.reportUnreadable(name, err)
	}
	for _, child := range children {
		if !w.visit(path.Join(name, child), add) {
			return false
		}
	}
	return true
}

// readNames returns the names in a folder, sorted.
func (w *walk) readNames(name string) ([]string, error) {
	f, err := w.root.Open(cmp.Or(name, "."))
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// visit adds a file, or a folder with its content. It returns false if the walk must stop.
func (w *walk) visit(name string, add func(entry) bool) bool {
	info, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true // the file was removed after the folder was listed
	}
	if err != nil {
		return w.reportUnreadable(name, err)
	}
	if reason := w.exclusionReason(name, info); reason != "" {
		w.recordExcluded(name, info, reason)
		return true
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		var message string
		if info, message = w.follow(name); message != "" {
			return w.reportProblem(name, message)
		}
	}
	w.warnCaseConflict(name)
	switch {
	case info.IsDir():
		if !add(entry{name: name, folder: true, info: info}) {
			return false
		}
		// The content of a folder that is too deep is not read: project.Gather has reported the folder.
		return strings.Count(name, "/") >= w.limits.PathDepth || w.addFolder(name, info, add)
	case !info.Mode().IsRegular():
		return w.reportProblem(name, "This is a device, a pipe or a socket. Remove it, or leave it out by a line in "+
			ownIgnoreFile+": a project holds files and folders only.")
	}
	if isLockFile(path.Base(name)) {
		host, err := w.privateRegistry(name)
		if err != nil {
			return w.reportUnreadable(name, err)
		}
		if host != "" {
			w.recordExcluded(name, info, "it points to a registry of this machine or network, "+host)
			return true
		}
	}
	return add(entry{name: name, size: info.Size(), info: info})
}

// exclusionReason returns why a path is not uploaded, "" if it is uploaded.
func (w *walk) exclusionReason(name string, info fs.FileInfo) string {
	if reason := neverUploaded(path.Base(name)); reason != "" {
		return reason
	}
	reason, ignored := w.ignored(name, info.IsDir())
	if !ignored {
		return ""
	}
	if project.IsRelevant(name) || name == "config" {
		w.addWarning(name, "This is left out by "+reason+", so that no build reads it. Correct that line.")
	}
	return reason
}

// neverUploaded returns why files with this name are never uploaded, "" for other names. It ignores case, because some
// file systems do.
func neverUploaded(base string) string {
	switch base = strings.ToLower(base); {
	case base == ".git":
		return "git's own data"
	case base == dataFolder:
		return "data of the local product"
	case strings.HasPrefix(base, dataFolder+"-"): // the temporary file of a command that was killed, maybe with a key
		return "a part of a file that a command has not finished"
	case strings.HasPrefix(base, ".env"):
		return "secrets of this machine: set variables of the environment instead"
	}
	return ""
}

func (w *walk) recordExcluded(name string, info fs.FileInfo, reason string) {
	if info.IsDir() {
		name += "/"
	}
	if len(w.summary.Excluded) == maxExcluded {
		w.summary.MoreExcluded++
		return
	}
	w.summary.Excluded = append(w.summary.Excluded, ExcludedPath{name, reason})
}

func (w *walk) addWarning(name, message string) {
	if len(w.summary.Warnings) < maxProblems {
		w.summary.Warnings = append(w.summary.Warnings, project.Problem{File: name, Message: message})
	}
}

// warnCaseConflict warns about a name that is the same as an earlier name on machines that ignore case.
func (w *walk) warnCaseConflict(name string) {
	lower := strings.ToLower(name)
	if other, ok := w.lowerNames[lower]; ok && other != name {
		w.addWarning(name, fmt.Sprintf("This name and %s differ in case alone: where a machine takes them for one, as "+
			"Windows and macOS do, one of them is lost. Rename one.", other))
		return
	}
	w.lowerNames[lower] = name
}

// follow returns the information about the target of a link. If the target is not within the project or is not usable,
// it returns a message about the problem.
func (w *walk) follow(name string) (fs.FileInfo, string) {
	target, _ := w.root.Readlink(name)
	resolved, err := filepath.EvalSymlinks(filepath.Join(w.dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Sprintf("This link leads nowhere: there is no %s. Correct it or remove it.", target)
	}
	if err != nil {
		return nil, fmt.Sprintf("This link to %s cannot be followed (%v). Correct it or remove it.", target, withoutPath(err))
	}
	rel, err := filepath.Rel(w.dir, resolved)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return nil, fmt.Sprintf("This link leads out of the project, to %s. Put the file itself into the project, or leave "+
			"the link out by a line in %s.", target, ownIgnoreFile)
	}
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		if neverUploaded(part) != "" {
			return nil, fmt.Sprintf(
				"This link leads to %s, which is never uploaded. Remove it, or leave it out by a line in %s.", target,
				ownIgnoreFile)
		}
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return nil, fmt.Sprintf("This link to %s is not relative. Make it one from its own folder (ln -sr makes such), so "+
			"that it leads to the same everywhere.", target)
	}
	if info.IsDir() && slices.ContainsFunc(w.ancestors, func(ancestor fs.FileInfo) bool {
		return os.SameFile(ancestor, info)
	}) {
		return nil, fmt.Sprintf("This link to %s leads to a folder that it is in itself, so that it has no end. Remove it.",
			target)
	}
	return info, ""
}

// reportUnreadable reports that a path cannot be read. It returns false if the walk must stop.
func (w *walk) reportUnreadable(name string, err error) bool {
	return w.reportProblem(name, fmt.Sprintf("This cannot be read: %v. Make it readable, or leave it out by a line in %s.",
		withoutPath(err), ownIgnoreFile))
}

// reportProblem reports a problem. It returns false if no more problems can be reported.
func (w *walk) reportProblem(name, message string) bool {
	w.problems = append(w.problems, project.Problem{File: name, Message: message})
	return len(w.problems) < maxProblems
}

// openContent opens a file for reading. It returns a *ChangedError if the file has changed since it was listed.
func (w *walk) openContent(e entry) (io.ReadCloser, error) {
	if e.data != nil {
		return io.NopCloser(bytes.NewReader(e.data)), nil
	}
	f, err := w.root.Open(e.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ChangedError{e.name}
	}
	if err != nil {
		return nil, newRefusedError(project.Problem{
			File: e.name,
			Message: fmt.Sprintf("This cannot be read: %v. Make it readable, or leave it out by a line in %s.", withoutPath(err),
				ownIgnoreFile),
		})
	}
	s := &stableReader{f: f, e: e, remaining: e.size}
	if !s.isUnchanged() {
		return nil, errors.Join(&ChangedError{e.name}, f.Close())
	}
	return s, nil
}

// stableReader reads a file and fails if the file changes in the meantime.
type stableReader struct {
	f         *os.File
	e         entry
	remaining int64
}

func (s *stableReader) Read(p []byte) (int, error) {
	if s.remaining == 0 {
		return 0, io.EOF
	}
	n, err := s.f.Read(p[:min(int64(len(p)), s.remaining)])
	s.remaining -= int64(n)
	if errors.Is(err, io.EOF) {
		return n, &ChangedError{s.e.name}
	}
	return n, err
}

// Close returns a *ChangedError if the file was written while it was read.
func (s *stableReader) Close() error {
	changed := !s.isUnchanged()
	err := s.f.Close()
	if changed {
		return &ChangedError{s.e.name}
	}
	return err
}

func (s *stableReader) isUnchanged() bool {
	info, err := s.f.Stat()
	return err == nil && os.SameFile(info, s.e.info) && info.Size() == s.e.size && info.ModTime().Equal(s.e.info.ModTime())
}

// withoutPath returns an error without its path, because the surrounding message contains the path.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// toSentence capitalizes the text of an error and adds a period.
func toSentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

package project

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Files are the files of a project that the compiler reads, by their path from
// the project's root ("config/routes.oas.json"). Those that an author may take for
// such files, and that are not read, are there without their content.
type Files map[string][]byte

// Limits bound what Unpack accepts and how much it works and remembers.
type Limits struct {
	// CompressedBytes is the most that an archive itself may have.
	CompressedBytes int64
	// UnpackedBytes is the most that all of it may have unpacked, headers and
	// padding included.
	UnpackedBytes int64
	// Ratio is the most that unpacked bytes may be to the compressed ones read
	// so far; it counts from RatioAfter unpacked bytes on.
	Ratio, RatioAfter int64
	// Files is the most files, Entries the most files and folders.
	Files, Entries int
	// PathBytes and PathDepth bound a path: its length and its segments.
	PathBytes, PathDepth int
	// FileBytes is the most that one file of the configuration may have,
	// KeptBytes all of them together.
	FileBytes, KeptBytes int64
}

// DefaultLimits are the product's: 100 MiB and fewer than 10,000 files
// (contract 8), the rest as Budgets has them.
func DefaultLimits() Limits {
	return Limits{
		CompressedBytes: archiveBytes,
		UnpackedBytes:   unpackedBytes,
		Ratio:           archiveRatio,
		RatioAfter:      32 * mib,
		Files:           archiveFiles,
		Entries:         archiveEntries,
		PathBytes:       pathBytes,
		PathDepth:       pathSegments,
		FileBytes:       fileBytes,
		KeptBytes:       keptBytes,
	}
}

// archiveProblems is how many entries an archive may have refused before
// Unpack reads no further.
const archiveProblems = 50

// Unpack reads a project's archive: a tar file, compressed with gzip, of the
// project folder's content. It keeps the files that the compiler reads and only
// checks the others. It streams: memory is bounded by KeptBytes, work by
// UnpackedBytes. No file system is touched: unpacking to a folder would need a
// disk of UnpackedBytes and a check for every trick with links and paths.
//
// What no project needs (links, devices, absolute paths, "..", a path twice,
// bytes after the end) is refused and not skipped: an archive that two programs
// read in two ways is a way around checks. Modules and documentation in an
// archive are not looked at, and not kept.
//
// What is wrong with the archive comes as problems, without Files then. The
// error is r's own or the context's, and only theirs: a source that cannot be
// read says nothing about the project.
func Unpack(ctx context.Context, r io.Reader, limits Limits) (Files, []Problem, error) {
	u := unpackerOf(limits)
	u.source = &countingReader{ctx: ctx, r: r, limit: limits.CompressedBytes}
	return u.answer(u.run())
}

func unpackerOf(limits Limits) *unpacker {
	return &unpacker{limits: limits, files: Files{}, seen: map[string]bool{}, deep: map[string]bool{}}
}

// answer is what Unpack does, after err has ended the reading.
func (u *unpacker) answer(err error) (Files, []Problem, error) {
	if e, ok := errors.AsType[*sourceError](err); ok {
		return nil, nil, e.cause
	}
	if err != nil {
		u.report.fail("", "", "%s", u.explain(err))
	}
	if problems := u.report.errors(); len(problems) > 0 {
		return nil, problems, nil
	}
	return u.files, nil, nil
}

type unpacker struct {
	limits Limits
	source *countingReader
	plain  *ratioReader
	report report

	files   Files
	kept    int64
	seen    map[string]bool // every path so far; true for a folder
	deep    map[string]bool // the folders that are told to be too deep
	entries int
	count   int
}

// The ways in which an archive ends Unpack at once.
var (
	errCompressedSize = errors.New("archive over the limit of its size")
	errUnpackedSize   = errors.New("archive over the limit of its unpacked size")
	errRatio          = errors.New("archive unpacks to too much")
	errTooManyFiles   = errors.New("archive with too many files")
	errTooManyFolders = errors.New("archive with too many entries")
	errTooMuchKept    = errors.New("configuration over its limit")
	errManyProblems   = errors.New("archive with many refused entries")
	errTrailing       = errors.New("archive with bytes after its end")
	errNotGzip        = errors.New("archive is not compressed with gzip")
	errNotTar         = errors.New("archive is no tar file")
)

func (u *unpacker) run() error {
	packed := bufio.NewReaderSize(u.source, 64<<10)
	// gzip calls a short text an archive cut short; its first bytes tell.
	magic, err := packed.Peek(2)
	if len(magic) < 2 && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return errNotGzip
	}
	zip, err := gzip.NewReader(packed)
	if errors.Is(err, gzip.ErrHeader) {
		return errNotGzip
	}
	if err != nil {
		return err
	}
	u.plain = &ratioReader{r: zip, source: u.source, limits: u.limits}
	// The tar reader does without a header's checksum only at the very end,
	// so that whatever is no tar fails here, on its first entry.
	archive := tar.NewReader(u.plain)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if u.plain.n == 0 {
				return errNotTar
			}
			return u.drain()
		}
		if errors.Is(err, tar.ErrHeader) && u.entries == 0 {
			return errNotTar
		}
		if err != nil {
			return err
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
		if u.report.problems.len() >= archiveProblems {
			return errManyProblems
		}
	}
}

// drain reads what follows the tar's end: padding, which also has gzip compare
// its checksum. Anything else could be a second archive that another reader
// would see and this one would not.
func (u *unpacker) drain() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := u.plain.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return errTrailing
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, gzip.ErrHeader) {
			return errTrailing
		}
		if err != nil {
			return err
		}
	}
}

// entry checks one entry and keeps its content where the compiler reads it.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // metadata of git archive, no file
	}
	u.entries++
	if u.entries > u.limits.Entries {
		return errTooManyFolders
	}
	if h.Size > u.limits.UnpackedBytes {
		return errUnpackedSize // a sparse file can claim any size
	}
	name, ok := u.name(h.Name)
	if !ok {
		return nil
	}
	folder := false
	switch h.Typeflag {
	case tar.TypeReg:
		if u.count++; u.count > u.limits.Files {
			return errTooManyFiles
		}
	case tar.TypeDir:
		folder = true
	case tar.TypeSymlink, tar.TypeLink:
		u.report.fail(name, "", "This entry is a link. Put the file itself into the archive (tar --dereference does).")
		return nil
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.report.fail(name, "", "This entry is a device or a pipe. Leave it out: a project holds files and folders only.")
		return nil
	default:
		u.report.fail(name, "", "This entry is no ordinary file. Leave it out: a project holds files and folders only.")
		return nil
	}
	if was, twice := u.seen[name]; twice && !(was && folder) {
		u.report.fail(name, "", "The archive has this path twice. Pack the project anew, so that each file is in it once.")
		return nil
	}
	u.seen[name] = folder
	if !folder && isMistaken(name) {
		u.files[name] = nil
	}
	if folder || !isConfiguration(name) {
		return nil
	}
	if h.Size > u.limits.FileBytes {
		u.report.fail(name, "", "%s", exceeds("file", u.limits.FileBytes, "Split it: config may hold several *.oas.json files."))
		return nil
	}
	if u.kept += h.Size; u.kept > u.limits.KeptBytes {
		return errTooMuchKept
	}
	data, err := io.ReadAll(io.LimitReader(content, h.Size))
	if err != nil {
		return err
	}
	u.files[name] = data
	return nil
}

// name returns an entry's path from the project's root, and reports one that
// leads elsewhere or could mean two things.
func (u *unpacker) name(raw string) (string, bool) {
	printed := printable(raw)
	refuse := func(format string, args ...any) (string, bool) {
		u.report.fail(printed, "", format, args...)
		return "", false
	}
	switch {
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl) || strings.Contains(raw, `\`):
		return refuse("This path has characters that a path in a project may not have. Use UTF-8 without control characters and backslashes.")
	case strings.HasPrefix(raw, "/"):
		return refuse("This path is absolute. Pack with paths relative to the project's folder: tar -czf project.tar.gz -C FOLDER .")
	case len(raw) > u.limits.PathBytes:
		return refuse("%s", exceeds("path", int64(u.limits.PathBytes), "Shorten it."))
	}
	for segment := range strings.SplitSeq(raw, "/") {
		if segment == ".." {
			return refuse("This path leads out of the project's folder. Pack with paths below it: tar -czf project.tar.gz -C FOLDER .")
		}
	}
	clean := path.Clean(raw)
	if segments := strings.SplitN(clean, "/", u.limits.PathDepth+1); len(segments) > u.limits.PathDepth {
		// What is below a folder that is too deep has been told with the first of it.
		if folder := strings.TrimSuffix(clean, "/"+segments[u.limits.PathDepth]); !u.deep[folder] {
			u.deep[folder] = true
			return refuse("%s", exceeds("folders", int64(u.limits.PathDepth), "Flatten the folders."))
		}
		return "", false
	}
	if clean == "." {
		return "", false // the project's folder itself
	}
	return clean, true
}

// isConfiguration reports whether the compiler reads the file.
func isConfiguration(name string) bool {
	return name == policiesFile || name == settingsFile || isRoutesFile(name)
}

// isMistaken reports whether an author may take the file for one that the compiler
// reads: it is configuration in YAML, or with the ending that another file has.
func isMistaken(name string) bool {
	dir, base := path.Split(name)
	stem := strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
	switch dir {
	case "config/":
		return stem != base && (strings.HasSuffix(stem, ".oas") || stem == "policies") || base == "policies.jsonc" || strings.HasSuffix(base, ".oas.jsonc")
	case "":
		return base == "gatewright.json" || stem != base && stem == "gatewright"
	}
	return false
}

// isRoutesFile matches config/*.oas.json.
func isRoutesFile(name string) bool {
	dir, base := path.Split(name)
	return dir == "config/" && strings.HasSuffix(base, ".oas.json")
}

// explain says what to do about an error that ended the reading.
func (u *unpacker) explain(err error) string {
	const leaveOut = "Leave out what the gateway does not need, such as node_modules and .git."
	const pack = "Pack the project anew: tar -czf project.tar.gz -C FOLDER ."
	switch {
	case errors.Is(err, errNotGzip):
		return "The upload is not compressed with gzip. " + pack
	case errors.Is(err, errNotTar):
		return "The upload holds no tar archive. " + pack
	case errors.Is(err, errTrailing):
		return "The archive goes on after its end. " + pack
	case errors.Is(err, errCompressedSize):
		return exceeds("archive", u.limits.CompressedBytes, leaveOut)
	case errors.Is(err, errUnpackedSize):
		return exceeds("unpacked", u.limits.UnpackedBytes, leaveOut)
	case errors.Is(err, errRatio):
		return exceeds("ratio", u.limits.Ratio, "The archive unpacks to so many times its size, which no project's text does. Leave out the file that is all alike.")
	case errors.Is(err, errTooManyFiles):
		return exceeds("files", int64(u.limits.Files), leaveOut)
	case errors.Is(err, errTooManyFolders):
		return exceeds("entries", int64(u.limits.Entries), leaveOut)
	case errors.Is(err, errTooMuchKept):
		return exceeds("configuration", u.limits.KeptBytes, "The files in config are too large together. Make them smaller.")
	case errors.Is(err, errManyProblems):
		return "The archive has more entries like these, and was not read to its end. Correct these first."
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "The archive ends in the middle. Upload it again, all of it."
	default:
		return "The archive is damaged. Upload it again, or pack the project anew: tar -czf project.tar.gz -C FOLDER ."
	}
}

// printable makes a path fit to be shown, whatever bytes it has.
func printable(raw string) string {
	const most = 200
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(raw, string(unicode.ReplacementChar)))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// sourceError is a failure to read the upload itself.
type sourceError struct{ cause error }

func (e *sourceError) Error() string { return e.cause.Error() }
func (e *sourceError) Unwrap() error { return e.cause }

// countingReader counts compressed bytes and marks the source's own errors. What
// is unpacked of each of its reads is bounded, so that it is the place to look
// at the context.
type countingReader struct {
	ctx      context.Context //nolint:containedctx // it lives as long as one call of Unpack
	r        io.Reader
	n, limit int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, &sourceError{context.Cause(c.ctx)}
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.limit {
		return 0, errCompressedSize
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, &sourceError{err}
	}
	return n, err
}

// ratioReader counts unpacked bytes and stops at what only a bomb reaches.
type ratioReader struct {
	r      io.Reader
	n      int64
	source *countingReader
	limits Limits
}

func (c *ratioReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.limits.UnpackedBytes {
		return 0, errUnpackedSize
	}
	if c.n > c.limits.RatioAfter && c.n/max(c.source.n, 1) > c.limits.Ratio {
		return 0, errRatio
	}
	return n, err
}

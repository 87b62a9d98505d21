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

// Files maps the path of each project file that the compiler can read to its content: the configuration, and the JSON
// and YAML files to which references can lead. Paths start at the project's root ("config/routes.oas.json"). The content is
// nil for a file with a misleading name, such as config/policies.jsonc, and for a file that is too large (Unpack). The
// compiler warns about the former, and reports references to the latter.
type Files map[string][]byte

// Limits bounds the archives that Unpack accepts, and the work and memory of Unpack.
type Limits struct {
	// CompressedBytes is the maximum size of the archive itself.
	CompressedBytes int64
	// UnpackedBytes is the maximum size of the unpacked archive, including headers and padding.
	UnpackedBytes int64
	// Ratio is the maximum ratio of unpacked bytes to the compressed bytes read so far. Unpack checks it after RatioAfter
	// unpacked bytes.
	Ratio, RatioAfter int64
	// Files is the maximum number of files, Entries the maximum number of files and folders.
	Files, Entries int
	// PathBytes is the maximum length of a path, PathDepth its maximum number of segments.
	PathBytes, PathDepth int
	// FileBytes is the maximum size of one configuration file, ConfigBytes of all configuration files together. Unpack
	// leaves out the content of other JSON and YAML files that exceed these limits.
	FileBytes, ConfigBytes int64
}

// DefaultLimits returns the limits of the product, such as 100 MiB and fewer than 10,000 files (contract 8). Budgets
// describes them.
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
		ConfigBytes:     configBytes,
	}
}

// maxRefusedEntries is the number of refused entries after which Unpack stops reading.
const maxRefusedEntries = 50

// Unpack reads a project's archive: a tar file of the project folder's content, compressed with gzip. It keeps the
// configuration, and the other JSON and YAML files, to which references can lead. If all of these are larger than
// ConfigBytes together, it leaves out the content of the other files: first of those in node_modules, then also of those
// outside of config, and then of all of them. Of all remaining files, such as modules and documentation, it checks only
// the headers. It reads the archive as a stream: ConfigBytes, Entries and PathBytes bound its memory, and UnpackedBytes
// bounds its work. It does not write to the file system: that would need UnpackedBytes of disk space, and a check for
// every trick with links and paths.
//
// Unpack refuses what no project needs (links, devices, absolute paths, "..", duplicate paths, bytes after the end)
// instead of skipping it: if two programs read an archive differently, an attacker can bypass checks.
//
// If the archive is invalid, Unpack returns problems and no Files. It returns an error only
// if r fails or the context ends: an unreadable source says nothing about the project.
func Unpack(ctx context.Context, r io.Reader, limits Limits) (Files, []Problem, error) {
	u := newUnpacker(limits)
	u.source = &countingReader{ctx: ctx, r: r, limit: limits.CompressedBytes}
	return u.result(u.run())
}

func newUnpacker(limits Limits) *unpacker {
	return &unpacker{
		limits: limits, files: Files{}, paths: map[string]bool{}, tooDeep: map[string]bool{}, keptRanks: referredRanks,
	}
}

// result returns the results of Unpack. err is the error that stopped reading, or nil.
func (u *unpacker) result(err error) (Files, []Problem, error) {
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

// unpacker checks the entries of one project, for Unpack and Gather. Only Unpack sets source and unpacked.
type unpacker struct {
	limits   Limits
	source   *countingReader
	unpacked *ratioReader
	report   report

	files       Files
	configBytes int64
	// referredBytes has the total size of the files to which references can lead, by rank (referredRank). The content of
	// files with the rank keptRanks or a higher rank is left out.
	referredBytes [referredRanks]int64
	keptRanks     int
	paths         map[string]bool // every path so far; true for a folder
	tooDeep       map[string]bool // the folders already reported as too deep
	entries       int
	fileCount     int
}

// Unpack stops at the first of these errors.
var (
	errCompressedSize = errors.New("archive over the limit of its size")
	errUnpackedSize   = errors.New("archive over the limit of its unpacked size")
	errRatio          = errors.New("archive unpacks to too much")
	errTooManyFiles   = errors.New("archive with too many files")
	errTooManyEntries = errors.New("archive with too many entries")
	errConfigTooLarge = errors.New("configuration over its limit")
	errManyProblems   = errors.New("archive with many refused entries")
	errTrailing       = errors.New("archive with bytes after its end")
	errNotGzip        = errors.New("archive is not compressed with gzip")
	errNotTar         = errors.New("archive is no tar file")
)

func (u *unpacker) run() error {
	compressed := bufio.NewReaderSize(u.source, 64<<10)
	// gzip.NewReader reports a text that is shorter than a gzip header as truncated, so check the magic number first.
	magic, err := compressed.Peek(2)
	if len(magic) < 2 && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return errNotGzip
	}
	gz, err := gzip.NewReader(compressed)
	if errors.Is(err, gzip.ErrHeader) {
		return errNotGzip
	}
	if err != nil {
		return err
	}
	u.unpacked = &ratioReader{r: gz, source: u.source, limits: u.limits}
	// Every tar header has a checksum, except for the zero bytes at the end of an archive. If the
	// unpacked file is not a tar archive, its first bytes are therefore an invalid header.
	archive := tar.NewReader(u.unpacked)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if u.unpacked.n == 0 {
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
		if err := u.readEntry(header, archive); err != nil {
			return err
		}
		if u.report.problems.len() >= maxRefusedEntries {
			return errManyProblems
		}
	}
}

// drain reads the bytes after the end of the tar archive. Only padding is valid there; reading it makes gzip verify
// its checksum. drain returns errTrailing for other bytes: they could be a second archive that another program would
// read and this one would not.
func (u *unpacker) drain() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := u.unpacked.Read(buf)
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

// readEntry checks one entry, and reports the entry if a project must not have it. It keeps the content if the compiler
// reads the file. It returns an error if Unpack has to stop.
func (u *unpacker) readEntry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // metadata of git archive, not a file
	}
	u.entries++
	if u.entries > u.limits.Entries {
		return errTooManyEntries
	}
	if h.Size > u.limits.UnpackedBytes {
		return errUnpackedSize // a sparse file can claim any size
	}
	name, ok := u.name(h.Name)
	if !ok {
		return nil
	}
	isFolder := false
	switch h.Typeflag {
	case tar.TypeReg:
		if u.fileCount++; u.fileCount > u.limits.Files {
			return errTooManyFiles
		}
	case tar.TypeDir:
		isFolder = true
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
	if wasFolder, duplicate := u.paths[name]; duplicate && !(wasFolder && isFolder) {
		u.report.fail(name, "", "The archive has this path twice. Pack the project anew, so that each file is in it once.")
		return nil
	}
	u.paths[name] = isFolder
	switch {
	case isFolder:
		return nil
	case isConfiguration(name):
	case IsReferable(name):
		return u.readReferred(name, h.Size, content)
	case isMisnamed(name):
		u.files[name] = nil
		return nil
	default:
		return nil
	}
	if h.Size > u.limits.FileBytes {
		u.report.fail(name, "", "%s",
			limitExceeded("file", u.limits.FileBytes, "Split it: config may hold several *.oas.json files."))
		return nil
	}
	if u.configBytes += h.Size; u.configBytes > u.limits.ConfigBytes {
		return errConfigTooLarge
	}
	u.dropReferred()
	data, err := io.ReadAll(io.LimitReader(content, h.Size))
	if err != nil {
		return err
	}
	u.files[name] = data
	return nil
}

// name returns an entry's path, relative to the project's root. It returns false for an entry to skip: the root itself,
// and an invalid path. It reports invalid paths, but a folder that is too deep only once.
func (u *unpacker) name(raw string) (string, bool) {
	printed := printable(raw)
	refuse := func(format string, args ...any) (string, bool) {
		u.report.fail(printed, "", format, args...)
		return "", false
	}
	switch {
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl) || strings.Contains(raw, `\`):
		return refuse("This path has characters that a path in a project may not have. Use UTF-8 without control " +
			"characters and backslashes.")
	case strings.HasPrefix(raw, "/"):
		return refuse("This path is absolute. Pack with paths relative to the project's folder: tar -czf " +
			"project.tar.gz -C FOLDER .")
	case len(raw) > u.limits.PathBytes:
		return refuse("%s", limitExceeded("path", int64(u.limits.PathBytes), "Shorten it."))
	}
	for segment := range strings.SplitSeq(raw, "/") {
		if segment == ".." {
			return refuse("This path leads out of the project's folder. Pack with paths below it: tar -czf " +
				"project.tar.gz -C FOLDER .")
		}
	}
	clean := path.Clean(raw)
	if segments := strings.SplitN(clean, "/", u.limits.PathDepth+1); len(segments) > u.limits.PathDepth {
		// folder is the deepest folder within the limit. Report it once, at its first entry that is too deep.
		if folder := strings.TrimSuffix(clean, "/"+segments[u.limits.PathDepth]); !u.tooDeep[folder] {
			u.tooDeep[folder] = true
			return refuse("%s", limitExceeded("folders", int64(u.limits.PathDepth), "Flatten the folders."))
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
	return name == policiesFile || name == settingsFile || IsRoutesFile(name)
}

// isMisnamed reports whether an author could believe that the compiler
// reads the file: configuration in YAML, or with the wrong file extension.
func isMisnamed(name string) bool {
	dir, base := path.Split(name)
	stem := strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
	switch dir {
	case "config/":
		return stem != base && stem == "policies" || base == "policies.jsonc" || strings.HasSuffix(base, ".oas.jsonc")
	case "":
		return base == "gatewright.json" || stem != base && stem == "gatewright"
	}
	return false
}

// IsRoutesFile reports whether a name matches config/*.oas.json, config/*.oas.yaml or config/*.oas.yml.
func IsRoutesFile(name string) bool {
	dir, base := path.Split(name)
	return dir == "config/" && IsReferable(base) && strings.HasSuffix(strings.TrimSuffix(base, path.Ext(base)), ".oas")
}

// explain returns the message for an error that stopped reading. The message says what to do.
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
		return limitExceeded("archive", u.limits.CompressedBytes, leaveOut)
	case errors.Is(err, errUnpackedSize):
		return limitExceeded("unpacked", u.limits.UnpackedBytes, leaveOut)
	case errors.Is(err, errRatio):
		return limitExceeded("ratio", u.limits.Ratio, "The archive unpacks to so many times its size, which no project's "+
			"text does. Leave out the file that is all alike.")
	case errors.Is(err, errTooManyFiles):
		return limitExceeded("files", int64(u.limits.Files), leaveOut)
	case errors.Is(err, errTooManyEntries):
		return limitExceeded("entries", int64(u.limits.Entries), leaveOut)
	case errors.Is(err, errConfigTooLarge):
		return limitExceeded("configuration", u.limits.ConfigBytes,
			"The files in config are too large together. Make them smaller.")
	case errors.Is(err, errManyProblems):
		return "The archive has more entries like these, and was not read to its end. Correct these first."
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "The archive ends in the middle. Upload it again, all of it."
	default:
		return "The archive is damaged. Upload it again, or pack the project anew: tar -czf project.tar.gz -C FOLDER ."
	}
}

// printable replaces the characters of a path that cannot be displayed, and shortens a long path.
func printable(raw string) string {
	const maxRunes = 200
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(raw, string(unicode.ReplacementChar)))
	if runes := []rune(text); len(runes) > maxRunes {
		return string(runes[:maxRunes]) + "…"
	}
	return text
}

// sourceError is an error of reading the upload itself.
type sourceError struct{ cause error }

func (e *sourceError) Error() string { return e.cause.Error() }
func (e *sourceError) Unwrap() error { return e.cause }

// countingReader counts compressed bytes, and fails if there are more than its limit. It wraps the errors of the source
// as sourceError. It also checks the context: each read unpacks to a bounded number of bytes, so Unpack stops soon
// after the context ends.
type countingReader struct {
	ctx      context.Context //nolint:containedctx // the reader exists only during one call of Unpack
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

// ratioReader counts unpacked bytes. It fails when the size or the ratio exceeds its limit, as with a decompression
// bomb.
type ratioReader struct {
	r      io.Reader
	n      int64
	source *countingReader
	limits Limits
}

func (rr *ratioReader) Read(p []byte) (int, error) {
	n, err := rr.r.Read(p)
	rr.n += int64(n)
	if rr.n > rr.limits.UnpackedBytes {
		return 0, errUnpackedSize
	}
	if rr.n > rr.limits.RatioAfter && rr.n/max(rr.source.n, 1) > rr.limits.Ratio {
		return 0, errRatio
	}
	return n, err
}

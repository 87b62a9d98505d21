package backup_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/shared/core/store"
)

// archive is a parsed backup, which tests can change.
type archive struct {
	manifest map[string]any
	files    []archivedFile
}

type archivedFile struct {
	header  tar.Header
	content []byte
}

// unpack reads the backup in a file.
func unpack(t *testing.T, file string) *archive {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	decompressed, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer decompressed.Close()
	a := &archive{}
	for tr := tar.NewReader(decompressed); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "manifest.json" {
			if err := json.Unmarshal(content, &a.manifest); err != nil {
				t.Fatal(err)
			}
			continue
		}
		a.files = append(a.files, archivedFile{*h, content})
	}
}

// manifestFiles returns the manifest's files.
func (a *archive) manifestFiles() []any { return a.manifest["files"].([]any) }

// index returns the index of the first file whose name begins with prefix.
func (a *archive) index(prefix string) int {
	return slices.IndexFunc(a.files, func(f archivedFile) bool { return strings.HasPrefix(f.header.Name, prefix) })
}

// updateEntry updates the manifest's entry of a file.
func (a *archive) updateEntry(i int) {
	f := a.files[i]
	digest := sha256.Sum256(f.content)
	a.manifestFiles()[i] = map[string]any{
		"name": f.header.Name, "bytes": len(f.content),
		"sha256": hex.EncodeToString(digest[:]),
	}
}

// set replaces a file, and updates the manifest.
func (a *archive) set(i int, name string, content []byte) {
	a.files[i].header.Name, a.files[i].content = name, content
	a.updateEntry(i)
}

// remove removes a file, also from the manifest.
func (a *archive) remove(i int) {
	a.files = slices.Delete(a.files, i, i+1)
	a.manifest["files"] = slices.Delete(a.manifestFiles(), i, i+1)
}

// pack returns the backup as it would be in a file. It does not update the manifest.
func (a *archive) pack(t *testing.T) []byte {
	t.Helper()
	manifest, err := json.Marshal(a.manifest)
	if err != nil {
		t.Fatal(err)
	}
	return packFiles(t,
		append([]archivedFile{{tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Mode: 0o600}, manifest}}, a.files...),
		nil)
}

// packFiles returns a compressed archive of files. trailer is compressed after the end of the archive.
func packFiles(t *testing.T, files []archivedFile, trailer []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(compressed)
	for _, f := range files {
		f.header.Size = int64(len(f.content))
		if f.header.Typeflag != tar.TypeReg {
			f.header.Size, f.content = 0, nil
		}
		if err := tw.WriteHeader(&f.header); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	err = tw.Close()
	if err == nil {
		_, err = compressed.Write(trailer)
	}
	if err := errors.Join(err, compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tryRestore restores a backup to a new directory. If Restore returns an error, tryRestore checks that the error is
// ErrInvalid in one line, and that no files are left.
func tryRestore(t *testing.T, content []byte) (dir string, err error) {
	t.Helper()
	parent := t.TempDir()
	file, dir := filepath.Join(parent, "file.backup"), filepath.Join(parent, "data")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = backup.Restore(t.Context(), file, dir)
	want := []string{"data", "file.backup"}
	if err != nil {
		want = want[1:]
		if !errors.Is(err, backup.ErrInvalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Restore() = %v, want %v in one line", err, backup.ErrInvalid)
		}
	}
	if got := fileNames(t, parent); !slices.Equal(got, want) {
		t.Errorf("files = %v, want %v", got, want)
	}
	return dir, err
}

// validBackup is the file of an undamaged backup.
type validBackup string

// withEdit returns a function for invalidCase.content. The function returns the backup with the changes that edit
// makes.
func (v validBackup) withEdit(edit func(a *archive)) func(t *testing.T) []byte {
	return func(t *testing.T) []byte {
		a := unpack(t, string(v))
		edit(a)
		return a.pack(t)
	}
}

// withName is withEdit for another name and content of the file of an object.
func (v validBackup) withName(name string) func(t *testing.T) []byte {
	return v.withEdit(func(a *archive) { a.set(a.index("objects/"), name, []byte("evil")) })
}

// withType is withEdit for another type of archive entry instead of the file of an object.
func (v validBackup) withType(flag byte) func(t *testing.T) []byte {
	return v.withEdit(func(a *archive) {
		f := &a.files[a.index("objects/")].header
		f.Typeflag, f.Linkname = flag, "../../../../etc/passwd"
	})
}

// entries returns the files of the backup, its manifest first.
func (v validBackup) entries(t *testing.T) []archivedFile {
	t.Helper()
	a := unpack(t, string(v))
	manifest, err := json.Marshal(a.manifest)
	if err != nil {
		t.Fatal(err)
	}
	return append([]archivedFile{{tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg}, manifest}}, a.files...)
}

func fixedContent(content []byte) func(*testing.T) []byte {
	return func(*testing.T) []byte { return content }
}

// invalidCase is a file that is not a valid backup, and a part of the expected error.
type invalidCase struct {
	name    string
	content func(t *testing.T) []byte
	want    string
}

// invalidFiles returns files that are not backups, or are backups of another version.
func (v validBackup) invalidFiles() []invalidCase {
	return []invalidCase{
		{"an empty file", fixedContent(nil), "it ends before its file manifest.json"},
		{"a text", fixedContent([]byte("this is no backup at all")), "damaged, cut short or another file"},
		{"another archive", func(t *testing.T) []byte {
			return packFiles(t, []archivedFile{{tar.Header{Name: "a", Typeflag: tar.TypeReg}, nil}}, nil)
		}, `a file "a" in the place of manifest.json`},
		{"another product", v.withEdit(func(a *archive) { a.manifest["product"] = "other" }), "another manifest"},
		{"another format", v.withEdit(func(a *archive) { a.manifest["format"] = 2 }), "use the version that made it"},
	}
}

// invalidEntries returns backups with files that a valid backup never contains.
func (v validBackup) invalidEntries() []invalidCase {
	return []invalidCase{
		{"a path above the directory", v.withName("../evil"), "no backup holds"},
		{"a path above through a folder", v.withName("objects/../../evil"), "no backup holds"},
		{"an absolute path", v.withName("/tmp/evil"), "no backup holds"},
		{"a Windows path", v.withName(`C:\evil`), "no backup holds"},
		{"a path with backslashes", v.withName(`objects\..\..\evil`), "no backup holds"},
		{"a Windows device", v.withName("engine/pebble/NUL"), "no backup holds"},
		{"a lock file", v.withName("lock"), "no backup holds"},
		{"a path that begins with a dot", v.withName("./root.key"), "no backup holds"},
		{"an object of another digest", v.withName("objects/ab/ab" + strings.Repeat("0", 62)), "no backup holds"},
		{"a long root key", v.withEdit(func(a *archive) {
			a.set(a.index("root.key"), "root.key", make([]byte, 33))
		}), "no backup holds"},
		{"a short root key", v.withEdit(func(a *archive) {
			a.set(a.index("root.key"), "root.key", make([]byte, 31))
		}), "no backup holds"},
		{"a long account key", v.withEdit(func(a *archive) {
			a.files = append(a.files, archivedFile{tar.Header{Name: "account-key", Typeflag: tar.TypeReg}, make([]byte, 4097)})
			a.manifest["files"] = append(a.manifestFiles(), nil)
			a.updateEntry(len(a.files) - 1)
		}), "no backup holds"},
		{"a negative size", v.withEdit(func(a *archive) {
			a.manifestFiles()[a.index("objects/")].(map[string]any)["bytes"] = -1
		}), "no backup holds"},
		{"no acknowledged position", v.withEdit(func(a *archive) {
			a.remove(a.index("engine/acknowledged"))
		}), "lacks engine/acknowledged"},
		{"a symbolic link", v.withType(tar.TypeSymlink), "a link, a device or a folder"},
		{"a hard link", v.withType(tar.TypeLink), "a link, a device or a folder"},
		{"a device", v.withType(tar.TypeChar), "a link, a device or a folder"},
		{"a pipe", v.withType(tar.TypeFifo), "a link, a device or a folder"},
		{"a folder", v.withType(tar.TypeDir), "a link, a device or a folder"},
	}
}

// invalidContents returns backups with files that do not match the manifest or each other.
func (v validBackup) invalidContents() []invalidCase {
	return []invalidCase{
		{"a file larger than in the manifest", v.withEdit(func(a *archive) {
			i := a.index("objects/")
			a.files[i].content = make([]byte, 50<<20) // zeros, which are compressed to some kilobytes
		}), "52428800 bytes, and its manifest says"},
		{"a manifest that is too long", func(t *testing.T) []byte {
			var out, head bytes.Buffer
			err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Size: 1 << 40})
			to, newErr := zstd.NewWriter(&out)
			if err := errors.Join(err, newErr); err != nil {
				t.Fatal(err)
			}
			_, err = to.Write(head.Bytes())
			if err := errors.Join(err, to.Close()); err != nil {
				t.Fatal(err)
			}
			return out.Bytes()
		}, "its manifest is too long"},
		{"an additional file", v.withEdit(func(a *archive) {
			a.files = append(a.files, archivedFile{tar.Header{Name: "more", Typeflag: tar.TypeReg}, nil})
		}), "more files than its manifest names"},
		{"a missing file", v.withEdit(func(a *archive) {
			a.files = a.files[:len(a.files)-1]
		}), "it ends before its file objects/"},
		{"a duplicate file", v.withEdit(func(a *archive) {
			a.files = append(a.files, a.files[0])
			a.manifest["files"] = append(a.manifestFiles(), a.manifestFiles()[0])
		}), "twice"},
		{"changed content", v.withEdit(func(a *archive) {
			a.files[a.index("objects/")].content[0] ^= 1
		}), "another content than its manifest says"},
		{"no root key", v.withEdit(func(a *archive) { a.remove(a.index("root.key")) }), "lacks root.key"},
		{"a foreign root key", v.withEdit(func(a *archive) {
			a.set(a.index("root.key"), "root.key", make([]byte, 32))
		}), "its root key is not that of its store"},
		{"a missing object", v.withEdit(func(a *archive) { a.remove(a.index("objects/")) }), "it lacks the content"},
		{"a truncated log", v.withEdit(func(a *archive) {
			i := slices.IndexFunc(a.files, func(f archivedFile) bool { return strings.HasSuffix(f.header.Name, ".log") })
			a.set(i, a.files[i].header.Name, nil)
		}), "its store does not open"},
		{"a damaged table", v.withEdit(func(a *archive) {
			i := slices.IndexFunc(a.files, func(f archivedFile) bool { return strings.HasSuffix(f.header.Name, ".sst") })
			a.files[i].content[len(a.files[i].content)*7/8] ^= 1 // in an item
			a.updateEntry(i)
		}), "its store is damaged"},
		{"no list of tables", v.withEdit(func(a *archive) {
			a.remove(a.index("engine/pebble/MANIFEST"))
		}), "its store does not open"},
	}
}

// invalidTrailers returns backups with additional content after the end.
func (v validBackup) invalidTrailers(t *testing.T) []invalidCase {
	t.Helper()
	original, err := os.ReadFile(string(v))
	if err != nil {
		t.Fatal(err)
	}
	return []invalidCase{
		{"bytes after the end in the archive", func(t *testing.T) []byte {
			return packFiles(t, v.entries(t), []byte("x"))
		}, "something follows its end"},
		{
			"a second archive after the end",
			fixedContent(append(slices.Clone(original), original...)), "something follows its end",
		},
		{
			"bytes after the compressed data",
			fixedContent(append(slices.Clone(original), "bytes"...)), "damaged, cut short or another file",
		},
	}
}

func TestInvalidBackupIsRefused(t *testing.T) {
	var noise [2][20_000]byte
	for i := range noise {
		for j := range noise[i] {
			noise[i][j] = byte(rand.Uint32())
		}
	}
	_, file := newBackupWith(t, store.Put(store.Key{PK: "z", SK: "1"}, map[string]any{"noise": noise[0][:]}),
		store.Put(store.Key{PK: "z", SK: "2"}, map[string]any{"noise": noise[1][:]}))
	b := validBackup(file)
	for _, test := range slices.Concat(b.invalidFiles(), b.invalidEntries(), b.invalidContents(), b.invalidTrailers(t)) {
		t.Run(test.name, func(t *testing.T) {
			_, err := tryRestore(t, test.content(t))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Restore() = %v, want %q", err, test.want)
			}
		})
	}
	// Make sure that the rejections are not caused by the repacking: an unchanged repacked backup can be restored.
	dir, err := tryRestore(t, packFiles(t, b.entries(t), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkIntact(t, dir); err != nil {
		t.Errorf("content of the restored directory: %v, want that of the backup", err)
	}
}

// checkIntact returns an error if a restored directory has another content than the backup.
func checkIntact(t *testing.T, dir string) error {
	t.Helper()
	return checkContent(t.Context(), dir)
}

// isTested reports whether the byte at n is tested: all bytes at both
// ends, which belong to the file formats, and some bytes in between.
func isTested(n, total int) bool {
	const edge, step = 40, 11
	return n < edge || total-n <= edge || n%step == 0
}

// TestTruncatedBackupIsRefused truncates a backup at many positions. Each truncated backup is rejected.
func TestTruncatedBackupIsRefused(t *testing.T) {
	_, file := newBackup(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range content {
		if !isTested(n, len(content)) {
			continue
		}
		if _, err := tryRestore(t, content[:n]); err == nil {
			t.Errorf("Restore(%d of %d bytes) error = nil, want one", n, len(content))
		}
	}
}

// TestBackupWithFlippedBitIsRefused flips bits of a backup. Either the backup is rejected, or the restored data is the
// same as the data of the original backup. At least 90 percent of the changed backups must be rejected.
func TestBackupWithFlippedBitIsRefused(t *testing.T) {
	_, file := newBackup(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	refused, all := 0, 0
	for n := range content {
		if !isTested(n, len(content)) {
			continue
		}
		flipped := slices.Clone(content)
		flipped[n] ^= 1 << random.IntN(8)
		all++
		dir, err := tryRestore(t, flipped)
		if err != nil {
			refused++
		} else if err := checkContent(t.Context(), dir); err != nil {
			t.Errorf("content restored after a change of byte %d: %v, want no error", n, err)
		}
	}
	if refused < all*9/10 {
		t.Errorf("%d of %d changed backups are refused, want at least 90 percent", refused, all)
	}
}

// TestOnlyRegularFilesAreReplaced checks that Create does not overwrite anything that is not a regular file, or is in
// the data directory. It also checks that Create follows a symbolic link to a file.
func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	dir, file := newBackup(t)
	i := mustStart(t, dir)
	parent := t.TempDir()
	inParent := func(name string) string { return filepath.Join(parent, name) }
	if err := errors.Join(os.Mkdir(inParent("folder"), 0o700), os.Symlink(inParent("nowhere"), inParent("nothing")),
		os.Symlink(dir, inParent("data"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		inParent("folder"):                  "name a file",
		inParent("nothing"):                 "name a file",
		os.DevNull:                          "name a file",
		parent:                              "name a file",
		dir:                                 "data directory",
		filepath.Join(dir, "root.key"):      "data directory",
		filepath.Join(dir, "engine", "new"): "data directory",
		filepath.Join(inParent("data"), "root.key"):    "data directory",
		filepath.Join(inParent("absent"), "a", "file"): "make the directory around it",
	} {
		err := backup.Create(path, dir, func(io.Writer) error {
			t.Errorf("Create(%s) writes a backup, want a refusal", path)
			return errors.New("written")
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Create(%s) = %v, want one line with %q", path, err, want)
		}
	}
	if got := fileNames(t, parent); len(got) != 3 {
		t.Errorf("files = %v, want 3", got)
	}
	link := inParent("link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if err := backup.Create(link, dir, func(to io.Writer) error { return i.write(t.Context(), to) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Errorf("Readlink() = %v, want the link kept", err)
	}
	if _, err := backup.Restore(t.Context(), file, inParent("restored")); err != nil {
		t.Errorf("Restore() of the backup behind the link = %v, want no error", err)
	}
}

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
	"github.com/gatewright/gatewright/shared/store"
)

// archive is a backup, taken apart.
type archive struct {
	manifest map[string]any
	files    []archived
}

type archived struct {
	head    tar.Header
	content []byte
}

func takenApart(t *testing.T, file string) *archive {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	plain, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	a := &archive{}
	for from := tar.NewReader(plain); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "manifest.json" {
			if err := json.Unmarshal(content, &a.manifest); err != nil {
				t.Fatal(err)
			}
			continue
		}
		a.files = append(a.files, archived{*h, content})
	}
}

// listed are the manifest's files.
func (a *archive) listed() []any { return a.manifest["files"].([]any) }

// at finds the first file whose name begins so.
func (a *archive) at(name string) int {
	return slices.IndexFunc(a.files, func(f archived) bool { return strings.HasPrefix(f.head.Name, name) })
}

// list has the manifest say what a file is.
func (a *archive) list(i int) {
	f := a.files[i]
	digest := sha256.Sum256(f.content)
	a.listed()[i] = map[string]any{"name": f.head.Name, "bytes": len(f.content), "sha256": hex.EncodeToString(digest[:])}
}

// set replaces a file, and has the manifest agree.
func (a *archive) set(i int, name string, content []byte) {
	a.files[i].head.Name, a.files[i].content = name, content
	a.list(i)
}

func (a *archive) drop(i int) {
	a.files = slices.Delete(a.files, i, i+1)
	a.manifest["files"] = slices.Delete(a.listed(), i, i+1)
}

func (a *archive) pack(t *testing.T) []byte {
	t.Helper()
	manifest, err := json.Marshal(a.manifest)
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, append([]archived{{tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Mode: 0o600}, manifest}}, a.files...), nil)
}

// packed makes a file of entries and of what follows them.
func packed(t *testing.T, files []archived, behind []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	to := tar.NewWriter(compressed)
	for _, f := range files {
		f.head.Size = int64(len(f.content))
		if f.head.Typeflag != tar.TypeReg {
			f.head.Size, f.content = 0, nil
		}
		if err := to.WriteHeader(&f.head); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	err = to.Close()
	if err == nil {
		_, err = compressed.Write(behind)
	}
	if err := errors.Join(err, compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// restored tries to restore a file into an absent directory. What is refused has
// to be so in one line, and to leave nothing.
func restored(t *testing.T, content []byte) (dir string, err error) {
	t.Helper()
	place := t.TempDir()
	file, dir := filepath.Join(place, "file.backup"), filepath.Join(place, "data")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = backup.Restore(t.Context(), file, dir)
	want := []string{"data", "file.backup"}
	if err != nil {
		want = want[1:]
		if !errors.Is(err, backup.ErrNotWhole) || strings.Contains(err.Error(), "\n") {
			t.Errorf("it is answered with %v", err)
		}
	}
	if got := names(t, place); !slices.Equal(got, want) {
		t.Errorf("there is %v", got)
	}
	return dir, err
}

func TestHostileBackupIsRefused(t *testing.T) {
	var noise [2][20_000]byte
	for i := range noise {
		for j := range noise[i] {
			noise[i][j] = byte(rand.Uint32())
		}
	}
	_, file := madeOf(t, store.Put(store.Key{PK: "z", SK: "1"}, map[string]any{"noise": noise[0][:]}), store.Put(store.Key{PK: "z", SK: "2"}, map[string]any{"noise": noise[1][:]}))
	original, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := func(edit func(a *archive)) func(t *testing.T) []byte {
		return func(t *testing.T) []byte {
			a := takenApart(t, file)
			edit(a)
			return a.pack(t)
		}
	}
	named := func(name string) func(t *testing.T) []byte {
		return edited(func(a *archive) { a.set(a.at("objects/"), name, []byte("evil")) })
	}
	kind := func(flag byte) func(t *testing.T) []byte {
		return edited(func(a *archive) {
			f := &a.files[a.at("objects/")].head
			f.Typeflag, f.Linkname = flag, "../../../../etc/passwd"
		})
	}
	raw := func(content []byte) func(*testing.T) []byte { return func(*testing.T) []byte { return content } }
	whole := func(t *testing.T) []archived {
		a := takenApart(t, file)
		manifest, err := json.Marshal(a.manifest)
		if err != nil {
			t.Fatal(err)
		}
		return append([]archived{{tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg}, manifest}}, a.files...)
	}
	for _, test := range []struct {
		name    string
		content func(t *testing.T) []byte
		want    string
	}{
		{"nothing", raw(nil), "it ends before its file manifest.json"},
		{"a text", raw([]byte("this is no backup at all")), "damaged, cut short or another file"},
		{"another archive", func(t *testing.T) []byte {
			return packed(t, []archived{{tar.Header{Name: "a", Typeflag: tar.TypeReg}, nil}}, nil)
		}, `a file "a" in the place of manifest.json`},
		{"another product", edited(func(a *archive) { a.manifest["product"] = "other" }), "another manifest"},
		{"another format", edited(func(a *archive) { a.manifest["format"] = 2 }), "use the version that made it"},
		{"above the directory", named("../evil"), "no backup holds"},
		{"above, from below", named("objects/../../evil"), "no backup holds"},
		{"absolute", named("/tmp/evil"), "no backup holds"},
		{"of Windows", named(`C:\evil`), "no backup holds"},
		{"with backslashes", named(`objects\..\..\evil`), "no backup holds"},
		{"a device of Windows", named("engine/pebble/NUL"), "no backup holds"},
		{"a lock", named("lock"), "no backup holds"},
		{"a dot before", named("./root.key"), "no backup holds"},
		{"an object of another digest", named("objects/ab/ab" + strings.Repeat("0", 62)), "no backup holds"},
		{"a long root key", edited(func(a *archive) { a.set(a.at("root.key"), "root.key", make([]byte, 33)) }), "no backup holds"},
		{"a short root key", edited(func(a *archive) { a.set(a.at("root.key"), "root.key", make([]byte, 31)) }), "no backup holds"},
		{"a long account key", edited(func(a *archive) {
			a.files = append(a.files, archived{tar.Header{Name: "account-key", Typeflag: tar.TypeReg}, make([]byte, 4097)})
			a.manifest["files"] = append(a.listed(), nil)
			a.list(len(a.files) - 1)
		}), "no backup holds"},
		{"fewer bytes than none", edited(func(a *archive) { a.listed()[a.at("objects/")].(map[string]any)["bytes"] = -1 }), "no backup holds"},
		{"without its promise", edited(func(a *archive) { a.drop(a.at("engine/acknowledged")) }), "lacks engine/acknowledged"},
		{"a symbolic link", kind(tar.TypeSymlink), "a link, a device or a folder"},
		{"a hard link", kind(tar.TypeLink), "a link, a device or a folder"},
		{"a device", kind(tar.TypeChar), "a link, a device or a folder"},
		{"a pipe", kind(tar.TypeFifo), "a link, a device or a folder"},
		{"a folder", kind(tar.TypeDir), "a link, a device or a folder"},
		{"beyond its size", edited(func(a *archive) {
			i := a.at("objects/")
			a.files[i].content = make([]byte, 50<<20) // of zeros, in some kilobytes
		}), "52428800 bytes, and its manifest says"},
		{"a manifest beyond its size", func(t *testing.T) []byte {
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
		{"one file more", edited(func(a *archive) {
			a.files = append(a.files, archived{tar.Header{Name: "more", Typeflag: tar.TypeReg}, nil})
		}), "more files than its manifest names"},
		{"one file less", edited(func(a *archive) { a.files = a.files[:len(a.files)-1] }), "it ends before its file objects/"},
		{"a file twice", edited(func(a *archive) {
			a.files = append(a.files, a.files[0])
			a.manifest["files"] = append(a.listed(), a.listed()[0])
		}), "twice"},
		{"other content", edited(func(a *archive) { a.files[a.at("objects/")].content[0] ^= 1 }), "another content than its manifest says"},
		{"without a root key", edited(func(a *archive) { a.drop(a.at("root.key")) }), "lacks root.key"},
		{"with a foreign root key", edited(func(a *archive) { a.set(a.at("root.key"), "root.key", make([]byte, 32)) }), "its root key is not that of its store"},
		{"without an object", edited(func(a *archive) { a.drop(a.at("objects/")) }), "it lacks the content"},
		{"without the end of the log", edited(func(a *archive) {
			i := slices.IndexFunc(a.files, func(f archived) bool { return strings.HasSuffix(f.head.Name, ".log") })
			a.set(i, a.files[i].head.Name, nil)
		}), "its store does not open"},
		{"with a damaged table", edited(func(a *archive) {
			i := slices.IndexFunc(a.files, func(f archived) bool { return strings.HasSuffix(f.head.Name, ".sst") })
			a.files[i].content[len(a.files[i].content)*7/8] ^= 1 // an item
			a.list(i)
		}), "its store is damaged"},
		{"without a table", edited(func(a *archive) { a.drop(a.at("engine/pebble/MANIFEST")) }), "its store does not open"},
		{"something behind", func(t *testing.T) []byte { return packed(t, whole(t), []byte("x")) }, "something follows its end"},
		{"an archive behind", raw(append(slices.Clone(original), original...)), "something follows its end"},
		{"bytes behind", raw(append(slices.Clone(original), "bytes"...)), "damaged, cut short or another file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := restored(t, test.content(t))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it is answered with %v, want %q", err, test.want)
			}
		})
	}
	// What makes them refused is what was edited, and not that it was.
	dir, err := restored(t, packed(t, whole(t), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := intact(t, dir); err != nil {
		t.Error(err)
	}
}

func intact(t *testing.T, dir string) error {
	t.Helper()
	return whole(t.Context(), dir)
}

// tried reports whether a byte is one of those that are tried: all at both ends,
// where the forms' own bytes are, and some of those between.
func tried(n, of int) bool {
	const ends, step = 40, 11
	return n < ends || of-n <= ends || n%step == 0
}

// Wherever a backup is cut, it is refused.
func TestCutBackupIsRefused(t *testing.T) {
	_, file := made(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range content {
		if !tried(n, len(content)) {
			continue
		}
		if _, err := restored(t, content[:n]); err == nil {
			t.Errorf("of %d bytes %d were enough", len(content), n)
		}
	}
}

// Whichever bit is flipped, the backup is refused, or what is restored is what
// was backed up.
func TestFlippedBackupIsRefused(t *testing.T) {
	_, file := made(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	refused, all := 0, 0
	for n := range content {
		if !tried(n, len(content)) {
			continue
		}
		flipped := slices.Clone(content)
		flipped[n] ^= 1 << random.IntN(8)
		all++
		dir, err := restored(t, flipped)
		if err != nil {
			refused++
		} else if err := whole(t.Context(), dir); err != nil {
			t.Errorf("byte %d: %v", n, err)
		}
	}
	if refused < all*9/10 {
		t.Errorf("of %d only %d are refused", all, refused)
	}
}

// TestNothingButAFileIsReplaced names what is no file, and what the data are in.
func TestNothingButAFileIsReplaced(t *testing.T) {
	dir, file := made(t)
	i := started(t, dir)
	elsewhere := t.TempDir()
	beside := func(name string) string { return filepath.Join(elsewhere, name) }
	if err := errors.Join(os.Mkdir(beside("folder"), 0o700), os.Symlink(beside("nowhere"), beside("nothing")), os.Symlink(dir, beside("data"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		beside("folder"):                    "name a file",
		beside("nothing"):                   "name a file",
		os.DevNull:                          "name a file",
		elsewhere:                           "name a file",
		dir:                                 "data directory",
		filepath.Join(dir, "root.key"):      "data directory",
		filepath.Join(dir, "engine", "new"): "data directory",
		filepath.Join(beside("data"), "root.key"):    "data directory",
		filepath.Join(beside("absent"), "a", "file"): "make the directory around it",
	} {
		err := backup.Create(path, dir, func(io.Writer) error {
			t.Errorf("%s: a backup is written", path)
			return errors.New("written")
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: it is answered with %v", path, err)
		}
	}
	if got := names(t, elsewhere); len(got) != 3 {
		t.Errorf("there is %v", got)
	}
	link := beside("link")
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
		t.Error("the link has become the file")
	}
	if _, err := backup.Restore(t.Context(), file, beside("restored")); err != nil {
		t.Error(err)
	}
}

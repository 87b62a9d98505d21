package transfer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/core/store"
)

// secretKeyPattern matches a secret key of age, but not an error that only mentions the prefix of such keys.
var secretKeyPattern = regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]`)

// smallExport returns an export of some items and an object.
func smallExport(t *testing.T) (file, key string) {
	t.Helper()
	fx := newEmptyFixture()
	for i := range 3 {
		fx.put(t, itemAt(store.KeyIn("things", fmt.Sprint(i)), store.Item{"v": textValue("x")}))
	}
	if err := fx.objects.Put(t.Context(), "sources/1", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	return export(t, fx.source())
}

// checkRefused imports a file into both kinds of targets, and checks that each import fails and changes nothing.
func checkRefused(t *testing.T, file, key string, want ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	_, err := transfer.ImportDirectory(t.Context(), file, key, dir)
	if leftovers, _ := filepath.Glob(filepath.Dir(dir) + "/*"); len(leftovers) > 0 {
		t.Errorf("ImportDirectory() leaves %v, want nothing", leftovers)
	}
	target, k := newEmptyFixture(), &fakeKeeper{}
	_, remoteErr := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, k))
	if n := len(target.table.Items()) + len(objectsOf(t, target.objects, false)) + len(k.root); n > 0 {
		t.Errorf("Import() leaves %d items, objects and bytes of a root key, want none", n)
	}
	for _, err := range []error{err, remoteErr} {
		if err == nil {
			t.Error("import error = nil, want one")
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("import error = %q, want %q in it", err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") || secretKeyPattern.MatchString(err.Error()) {
			t.Errorf("import error = %q, want one line without a secret", err)
		}
	}
}

// TestTruncatedOrChangedExportIsRefused truncates an export at each position, and changes each of its bytes. Each
// import must fail and create nothing.
func TestTruncatedOrChangedExportIsRefused(t *testing.T) {
	file, key := smallExport(t)
	original, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(description string, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(filepath.Dir(file), "data")
		_, err := transfer.ImportDirectory(t.Context(), file, key, dir)
		if !errors.Is(err, transfer.ErrInvalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("ImportDirectory(%s) = %v, want %v in one line", description, err, transfer.ErrInvalid)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("ImportDirectory(%s) creates the directory, want none", description)
		}
	}
	for n := range original {
		check(fmt.Sprintf("the first %d bytes", n), original[:n])
		changed := slices.Clone(original)
		changed[n] ^= 1
		check(fmt.Sprintf("an export with byte %d changed", n), changed)
	}
	check("an export with an additional byte", append(slices.Clone(original), 0))
	check("an export twice in the file", slices.Concat(original, original))
	if err := os.WriteFile(file, original[:len(original)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, file, key, file, "nothing was imported")
}

// TestOtherKeyIsRefused checks that an import fails with another key and for a
// file that is not an export. The errors are one line and contain no secret.
func TestOtherKeyIsRefused(t *testing.T) {
	file, key := smallExport(t)
	_, other := smallExport(t)
	checkRefused(t, file, other, file, "another key")
	bareKey := filepath.Join(t.TempDir(), "bare.key")
	raw, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := bytes.Cut(raw, []byte("\n"))
	if err := os.WriteFile(bareKey, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, bareKey, key, bareKey, "not that of a file of export-data") // the arguments are swapped
	checkRefused(t, filepath.Join(t.TempDir(), "absent"), key, "absent")
	checkRefused(t, t.TempDir(), key, "directory")
}

// part is a file of an archive that the test creates and seals under the right key.
type part struct {
	name, content string
	typeflag      byte
	size          int64 // 0 for the size of content
}

// forgeArchive seals an archive of parts under a new key, without the checks of transfer.Write.
func forgeArchive(t *testing.T, parts ...part) (file, key string) {
	t.Helper()
	dir := t.TempDir()
	file, key = filepath.Join(dir, "file"), filepath.Join(dir, "key")
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte(identity.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sealed, err := age.Encrypt(&out, identity.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := zstd.NewWriter(sealed)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(compressed)
	for _, p := range parts {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: p.name, Size: int64(len(p.content)), Mode: 0o600}
		if p.typeflag != 0 {
			h.Typeflag, h.Size, h.Linkname = p.typeflag, 0, "/etc/passwd"
		}
		if p.size != 0 {
			h.Size = p.size
		}
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(archive, io.MultiReader(strings.NewReader(p.content), zeros{}), h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close(), sealed.Close(),
		os.WriteFile(file, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file, key
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestForgedExportIsRefused checks that an import rejects invalid archives that an attacker has sealed with the right
// key. They are of another version or product, have less or more content than they declare, or have items that a table
// does not accept.
func TestForgedExportIsRefused(t *testing.T) {
	head := part{name: "manifest.json", content: `{"product":"gatewright","format":1}`}
	key := part{name: "root.key", content: string(root)}
	item := `{"pk":{"S":"a"},"sk":{"S":"%s"}}` + "\n"
	items := part{name: "items/1.json", content: fmt.Sprintf(item, "1")}
	object := part{name: "objects/sources/1", content: "content"}
	end := part{name: "end.json", content: `{"items":1,"objects":1,"bytes":7}`}
	good := []part{head, key, items, object, end}
	file, keyFile := forgeArchive(t, good...)
	if _, err := transfer.ImportDirectory(t.Context(), file, keyFile, filepath.Join(t.TempDir(), "data")); err != nil {
		t.Fatal(err)
	}
	replace := func(index int, p part) []part {
		out := slices.Clone(good)
		out[index] = p
		return out
	}
	tests := []struct {
		name  string
		parts []part
		want  string
	}{
		{
			"later format", replace(0, part{name: "manifest.json", content: `{"product":"gatewright","format":2}`}),
			"it has format 2, and this version reads format 1",
		},
		{"no format", replace(0, part{name: "manifest.json", content: `{"product":"gatewright"}`}), "format 0"},
		{
			"another product", replace(0, part{name: "manifest.json", content: `{"product":"other","format":1}`}),
			"none of this product",
		},
		{"no manifest", good[1:], "manifest.json"},
		{"a manifest that is not JSON", replace(0, part{name: "manifest.json", content: `{`}), "manifest"},
		{"a long manifest", replace(0, part{name: "manifest.json", size: 1 << 20}), "manifest.json"},
		{"no root key", slices.Delete(slices.Clone(good), 1, 2), "root.key"},
		{"a short root key", replace(1, part{name: "root.key", content: "short"}), "root key"},
		{"no end", good[:4], "its end is missing"},
		{"an empty archive", nil, "its end is missing"},
		{"fewer items than declared", slices.Delete(slices.Clone(good), 2, 3), "it has 0 items and 1 objects"},
		{"another number of bytes", replace(4, part{name: "end.json", content: `{"items":1,"objects":1,"bytes":8}`}), "says"},
		{"an end that is not JSON", replace(4, part{name: "end.json", content: `[`}), "end"},
		{"a file after the end", append(slices.Clone(good), object), "behind its end"},
		{"items after objects", []part{head, key, object, items, end}, "end.json"},
		{"a link", replace(3, part{name: "objects/sources/1", typeflag: tar.TypeSymlink}), "no file"},
		{"another file", replace(3, part{name: "other", content: "x"}), "other"},
		{"an item that is not JSON", replace(2, part{name: "items/1.json", content: "{"}), "item"},
		{"an item without a key", replace(2, part{name: "items/1.json", content: `{"pk":{"S":"a"}}`}), "no key"},
		{
			"an invalid value",
			replace(2, part{name: "items/1.json", content: `{"pk":{"S":"a"},"sk":{"S":"b"},"v":{"X":"b"}}`}), "item",
		},
		{"a repeated item", replace(2, part{name: "items/1.json", content: items.content + items.content}), "twice"},
		{
			"a large item",
			replace(2, part{name: "items/1.json", content: fmt.Sprintf(item, "1"+strings.Repeat("x", store.MaxItemBytes))}),
			"bytes",
		},
		{"a large file of items", replace(2, part{name: "items/1.json", size: 8 << 20}), "bytes"},
		{
			"a wrapped root key", replace(2, part{name: "items/1.json", content: `{"pk":{"S":"root-key"},"sk":{"S":"."}}`}),
			"another installation's place",
		},
		{
			"an import under way", replace(2, part{name: "items/1.json", content: `{"pk":{"S":"import"},"sk":{"S":"."}}`}),
			"another installation's place",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file, keyFile := forgeArchive(t, test.parts...)
			checkRefused(t, file, keyFile, test.want, "nothing was imported")
		})
	}
}

// TestUnsafeOrBrokenKeyFileIsRefused also checks that errors do not
// contain the key, and that CreateKey does not change an existing file.
func TestUnsafeOrBrokenKeyFileIsRefused(t *testing.T) {
	file, key := smallExport(t)
	raw, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1Q", 1)
	for name, test := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"a key file readable by others": {string(raw), 0o644, "chmod 600"},
		"empty":                         {"", 0o600, "exactly one key"},
		"two keys":                      {string(raw) + string(raw), 0o600, "exactly one key"},
		"a second key after 4 KiB": {
			string(raw) + strings.Repeat("#\n", 2048) + string(raw), 0o600, "more than 4096 bytes",
		},
		"a text without a key": {"hunter2", 0o600, "exactly one key"},
		"a changed key":        {changed, 0o600, "exactly one key"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			checkRefused(t, file, path, path, test.want)
			_, err := transfer.Write(t.Context(), newEmptyFixture().source(), path, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Write() = %v, want %q without the content of the file", err, test.want)
			}
		})
	}
	if created, err := transfer.CreateKey(key); created || err != nil {
		t.Errorf("CreateKey(existing file) = %v, %v, want false and no error", created, err)
	}
	if after, err := os.ReadFile(key); err != nil || !bytes.Equal(raw, after) {
		t.Errorf("the existing key differs (%v), want it unchanged", err)
	}
	info, err := os.Stat(key)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key = %v, want 0600", info.Mode())
	}
	if _, err := transfer.CreateKey(filepath.Join(t.TempDir(), "absent", "key")); err == nil ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("CreateKey(in a missing directory) = %v, want an error of one line", err)
	}
}

// TestFailedExportReturnsAnError checks that Write returns an error if a write fails at one
// of many positions, if the table cannot be read, or if the root key is missing.
func TestFailedExportReturnsAnError(t *testing.T) {
	errDisk := errors.New("the disk is full")
	key := filepath.Join(t.TempDir(), "key")
	if _, err := transfer.CreateKey(key); err != nil {
		t.Fatal(err)
	}
	fx := newFilled(t)
	var complete bytes.Buffer
	if _, err := transfer.Write(t.Context(), fx.source(), key, &complete); err != nil {
		t.Fatal(err)
	}
	for limit := 0; limit < complete.Len()*3/4; limit += 97 {
		if _, err := transfer.Write(t.Context(), fx.source(), key, &limitedWriter{limit, errDisk}); !errors.Is(err, errDisk) {
			t.Errorf("Write(disk with %d bytes left) = %v, want %v", limit, err, errDisk)
		}
	}
	s := fx.source()
	s.Items = func(context.Context, func(store.Item) error) error { return errDisk }
	if _, err := transfer.Write(t.Context(), s, key, io.Discard); !errors.Is(err, errDisk) {
		t.Errorf("Write(unreadable table) = %v, want %v", err, errDisk)
	}
	s = fx.source()
	s.Root.Key = nil
	if _, err := transfer.Write(t.Context(), s, key, io.Discard); err == nil {
		t.Error("Write(no root key) error = nil, want one")
	}
}

// limitedWriter is a writer that fails when its space is used up, like a full disk.
type limitedWriter struct {
	remaining int
	err       error
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.remaining {
		n := l.remaining
		l.remaining = 0
		return n, l.err
	}
	l.remaining -= len(p)
	return len(p), nil
}

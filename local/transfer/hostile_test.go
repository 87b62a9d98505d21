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
	"github.com/gatewright/gatewright/shared/store"
)

// secretText is a key of age, and not what the sentence about one names.
var secretText = regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]`)

// small is an export of some items and an object.
func small(t *testing.T) (file, key string) {
	t.Helper()
	w := empty()
	for i := range 3 {
		w.put(t, itemAt(store.In("things", fmt.Sprint(i)), store.Item{"v": text("x")}))
	}
	if err := w.objects.Put(t.Context(), "sources/1", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	return export(t, w.source())
}

// refused has a file imported into both kinds of targets, and nothing come of it.
func refused(t *testing.T, file, key string, want ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	_, err := transfer.ImportDirectory(t.Context(), file, key, dir)
	if left, _ := filepath.Glob(filepath.Dir(dir) + "/*"); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
	to, k := empty(), &keeper{}
	_, remoteErr := transfer.Import(t.Context(), file, key, remote(t, to, to.table, k))
	if n := len(to.table.Items()) + len(objectsOf(t, to.objects, false)) + len(k.root); n > 0 {
		t.Errorf("it leaves %d things", n)
	}
	for _, err := range []error{err, remoteErr} {
		if err == nil {
			t.Error("it was imported")
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("it is answered with %q, which lacks %q", err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") || secretText.MatchString(err.Error()) {
			t.Errorf("it is answered with %q", err)
		}
	}
}

// TestCutOrChangedExportIsRefused, wherever it was cut and whichever byte is another.
func TestCutOrChangedExportIsRefused(t *testing.T) {
	file, key := small(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(filepath.Dir(file), "data")
		_, err := transfer.ImportDirectory(t.Context(), file, key, dir)
		if !errors.Is(err, transfer.ErrNotWhole) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s is answered with %v", what, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("%s was imported", what)
		}
	}
	for n := range whole {
		try(fmt.Sprintf("one of %d bytes", n), whole[:n])
		changed := slices.Clone(whole)
		changed[n] ^= 1
		try(fmt.Sprintf("one with another byte %d", n), changed)
	}
	try("one with a byte more", append(slices.Clone(whole), 0))
	try("one twice", slices.Concat(whole, whole))
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, file, key, file, "nothing was imported")
}

// TestOtherKeyIsRefused, and what is no export, without a word of what it holds.
func TestOtherKeyIsRefused(t *testing.T) {
	file, key := small(t)
	_, other := small(t)
	refused(t, file, other, file, "another key")
	bare := filepath.Join(t.TempDir(), "bare.key")
	raw, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := bytes.Cut(raw, []byte("\n"))
	if err := os.WriteFile(bare, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, bare, key, bare, "not that of a file of export-data") // FILE and KEY were mixed up
	refused(t, filepath.Join(t.TempDir(), "absent"), key, "absent")
	refused(t, t.TempDir(), key, "directory")
}

// part is a file of an archive that is made by hand, under the right key.
type part struct {
	name, content string
	kind          byte
	size          int64 // 0 for that of content
}

func forged(t *testing.T, parts ...part) (file, key string) {
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
		if p.kind != 0 {
			h.Typeflag, h.Size, h.Linkname = p.kind, 0, "/etc/passwd"
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
	if err := errors.Join(archive.Close(), compressed.Close(), sealed.Close(), os.WriteFile(file, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file, key
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestForgedExportIsRefused, also by who has its key: of another version, of another product, with
// less or more in it than it says, or with what no table takes.
func TestForgedExportIsRefused(t *testing.T) {
	head := part{name: "manifest.json", content: `{"product":"gatewright","format":1}`}
	key := part{name: "root.key", content: string(root)}
	item := `{"pk":{"S":"a"},"sk":{"S":"%s"}}` + "\n"
	items := part{name: "items/1.json", content: fmt.Sprintf(item, "1")}
	object := part{name: "objects/sources/1", content: "content"}
	end := part{name: "end.json", content: `{"items":1,"objects":1,"bytes":7}`}
	good := []part{head, key, items, object, end}
	file, of := forged(t, good...)
	if _, err := transfer.ImportDirectory(t.Context(), file, of, filepath.Join(t.TempDir(), "data")); err != nil {
		t.Fatal(err)
	}
	with := func(at int, p part) []part {
		out := slices.Clone(good)
		out[at] = p
		return out
	}
	tests := []struct {
		name  string
		parts []part
		want  string
	}{
		{"later format", with(0, part{name: "manifest.json", content: `{"product":"gatewright","format":2}`}), "it has format 2, and this version reads format 1"},
		{"no format", with(0, part{name: "manifest.json", content: `{"product":"gatewright"}`}), "format 0"},
		{"another product", with(0, part{name: "manifest.json", content: `{"product":"other","format":1}`}), "none of this product"},
		{"no manifest", good[1:], "manifest.json"},
		{"a manifest that is none", with(0, part{name: "manifest.json", content: `{`}), "manifest"},
		{"a long manifest", with(0, part{name: "manifest.json", size: 1 << 20}), "manifest.json"},
		{"no root key", slices.Delete(slices.Clone(good), 1, 2), "root.key"},
		{"a short root key", with(1, part{name: "root.key", content: "short"}), "root key"},
		{"no end", good[:4], "its end is missing"},
		{"nothing", nil, "its end is missing"},
		{"less than it says", slices.Delete(slices.Clone(good), 2, 3), "it has 0 items and 1 objects"},
		{"another number of bytes", with(4, part{name: "end.json", content: `{"items":1,"objects":1,"bytes":8}`}), "says"},
		{"an end that is none", with(4, part{name: "end.json", content: `[`}), "end"},
		{"more behind its end", append(slices.Clone(good), object), "behind its end"},
		{"items behind objects", []part{head, key, object, items, end}, "end.json"},
		{"a link", with(3, part{name: "objects/sources/1", kind: tar.TypeSymlink}), "no file"},
		{"another file", with(3, part{name: "other", content: "x"}), "other"},
		{"an item that is none", with(2, part{name: "items/1.json", content: "{"}), "item"},
		{"an item without a key", with(2, part{name: "items/1.json", content: `{"pk":{"S":"a"}}`}), "no key"},
		{"a value that is none", with(2, part{name: "items/1.json", content: `{"pk":{"S":"a"},"sk":{"S":"b"},"v":{"X":"b"}}`}), "item"},
		{"an item twice", with(2, part{name: "items/1.json", content: items.content + items.content}), "twice"},
		{"a large item", with(2, part{name: "items/1.json", content: fmt.Sprintf(item, "1"+strings.Repeat("x", store.MaxItemBytes))}), "bytes"},
		{"a large file of items", with(2, part{name: "items/1.json", size: 8 << 20}), "bytes"},
		{"a wrapped root key", with(2, part{name: "items/1.json", content: `{"pk":{"S":"root-key"},"sk":{"S":"."}}`}), "another installation's place"},
		{"an import under way", with(2, part{name: "items/1.json", content: `{"pk":{"S":"import"},"sk":{"S":"."}}`}), "another installation's place"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file, of := forged(t, test.parts...)
			refused(t, file, of, test.want, "nothing was imported")
		})
	}
}

// TestUnsafeOrBrokenKeyFileIsRefused, and shown nothing of.
func TestUnsafeOrBrokenKeyFileIsRefused(t *testing.T) {
	file, key := small(t)
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
		"others may read it": {string(raw), 0o644, "chmod 600"},
		"empty":              {"", 0o600, "exactly one key"},
		"two keys":           {string(raw) + string(raw), 0o600, "exactly one key"},
		"another text":       {"hunter2", 0o600, "exactly one key"},
		"a changed key":      {changed, 0o600, "exactly one key"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			refused(t, file, path, path, test.want)
			_, err := transfer.Write(t.Context(), empty().source(), path, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("an export is answered with %v", err)
			}
		})
	}
	if made, err := transfer.MakeKey(key); made || err != nil {
		t.Errorf("a key that is there is made: %v, %v", made, err)
	}
	if after, err := os.ReadFile(key); err != nil || !bytes.Equal(raw, after) {
		t.Error("a key that is there was changed")
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	if _, err := transfer.MakeKey(filepath.Join(t.TempDir(), "absent", "key")); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("no folder for it is answered with %v", err)
	}
}

// TestExportThatFailsPassesForNone: whatever cannot be read or written ends it.
func TestExportThatFailsPassesForNone(t *testing.T) {
	broken := errors.New("the disk is full")
	key := filepath.Join(t.TempDir(), "key")
	if _, err := transfer.MakeKey(key); err != nil {
		t.Fatal(err)
	}
	w := made(t)
	var whole bytes.Buffer
	if _, err := transfer.Write(t.Context(), w.source(), key, &whole); err != nil {
		t.Fatal(err)
	}
	for most := 0; most < whole.Len()*3/4; most += 97 {
		if _, err := transfer.Write(t.Context(), w.source(), key, &full{most, broken}); !errors.Is(err, broken) {
			t.Errorf("room for %d bytes is answered with %v", most, err)
		}
	}
	s := w.source()
	s.Items = func(context.Context, func(store.Item) error) error { return broken }
	if _, err := transfer.Write(t.Context(), s, key, io.Discard); !errors.Is(err, broken) {
		t.Errorf("a table that cannot be read is answered with %v", err)
	}
	s = w.source()
	s.Root.Key = nil
	if _, err := transfer.Write(t.Context(), s, key, io.Discard); err == nil {
		t.Error("there is an export without a root key")
	}
}

// full is a disk with room for some bytes.
type full struct {
	room int
	err  error
}

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		n := f.room
		f.room = 0
		return n, f.err
	}
	f.room -= len(p)
	return len(p), nil
}

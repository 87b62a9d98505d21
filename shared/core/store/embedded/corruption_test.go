package embedded_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// history describes how the files of a store are created.
type history struct {
	name string
	// starts is the number of starts. The process of the last start is killed. The others end with Close.
	starts int
	// commits is the number of commits after each start, each of 500 bytes.
	commits int
}

// smallMemTable makes the engine flush about every hundred commits. The engine
// also flushes at each start, and merges several tables into one table.
const smallMemTable = 64 << 10

var histories = []history{
	{"one start without flushes", 1, 40},
	{"a restart", 2, 40},
	{"one start with flushes", 1, 500},
	{"many restarts", 9, 20},
	{"flushes and compactions over restarts", 4, 700},
}

// build creates the files of a history. It returns the files, and the values of all items and notes by their names.
func (h history) build(t *testing.T) (*vfs.MemFS, map[string]string) {
	t.Helper()
	fs, values := vfs.NewCrashableMem(), map[string]string{}
	random := rand.New(rand.NewPCG(1, 2))
	for start := range h.starts {
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, MemTableBytes: smallMemTable})
		if err != nil {
			t.Fatal(err)
		}
		table := tableOver(engine)
		for n := range h.commits {
			value := make([]byte, 500)
			for i := range value {
				value[i] = byte('a' + random.IntN(26))
			}
			key := numberedKey(random.IntN(h.commits * h.starts))
			if err := table.Commit(t.Context(), store.Put(key, map[string]any{"v": string(value)})); err != nil {
				t.Fatal(err)
			}
			values[key.SK] = string(value)
			if n%10 == 0 {
				if err := engine.SetNotes(map[string][]byte{key.SK: value[:10]}); err != nil {
					t.Fatal(err)
				}
				values[noteNamePrefix+key.SK] = string(value[:10])
			}
		}
		if start < h.starts-1 {
			if err := engine.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		crashedFS := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: random}) // the current state
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
		return crashedFS, values
	}
	return nil, nil
}

// noteNamePrefix is the prefix of notes' names in the values that build returns.
const noteNamePrefix = "note "

// readValue returns the value of an item or a note.
func readValue(t *testing.T, engine *embedded.Backend, name string) (string, error) {
	t.Helper()
	if note, ok := strings.CutPrefix(name, noteNamePrefix); ok {
		value, err := engine.Note(note)
		return string(value), err
	}
	var got struct {
		V string `dynamodbav:"v"`
	}
	err := tableOver(engine).Load(t.Context(), store.Get(store.Key{PK: "p", SK: name}, &got))
	return got.V, err
}

// kindOf returns the kind of a file, or "" for the lock.
func kindOf(name string) string {
	switch base := path.Base(name); {
	case base == "LOCK":
		return ""
	case strings.HasPrefix(base, "marker."):
		return "marker"
	case strings.Contains(base, "-"):
		return strings.Split(base, "-")[0]
	case strings.Contains(base, "."):
		return path.Ext(base)
	default:
		return base
	}
}

// corruption is a change of one file.
type corruption struct {
	file   string
	kind   string // "flip", "cut" or "remove"
	offset int    // the index of the byte to flip, or the length after the cut
	bit    byte   // the bit to flip, as a mask
}

func (c corruption) String() string {
	return fmt.Sprintf("%s %s at %d (%#x)", c.kind, c.file, c.offset, c.bit)
}

func (c corruption) apply(t *testing.T, fs vfs.FS) {
	t.Helper()
	if c.kind == "remove" {
		if err := fs.Remove(c.file); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw := content(t, fs, c.file)
	if c.kind == "cut" {
		raw = raw[:c.offset]
	} else {
		raw[c.offset] ^= c.bit
	}
	replace(t, fs, c.file, raw)
}

// corruptions returns perKind changes for each kind of file with data in fs, ten times as many
// additional changes for each manifest, and the removal of each file that has a kind.
func corruptions(t *testing.T, fs *vfs.MemFS, perKind int, random *rand.Rand) (out []corruption) {
	t.Helper()
	kinds := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(fileSizes(t, fs, folder))) {
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if kind := kindOf(name); kind != "" && !info.IsDir() {
			out = append(out, corruption{file: name, kind: "remove"})
			if info.Size() > 0 {
				kinds[kind] = append(kinds[kind], name)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for range perKind {
			name := kinds[kind][random.IntN(len(kinds[kind]))]
			info, err := fs.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			offset := random.IntN(int(info.Size()))
			if random.IntN(3) == 0 { // the end of a file is important: it describes the rest
				offset = max(0, int(info.Size())-1-random.IntN(64))
			}
			out = append(out, corruption{name, []string{"flip", "cut"}[random.IntN(2)], offset, 1 << random.IntN(8)})
		}
	}
	for _, name := range kinds["MANIFEST"] { // few of its bits matter, so random places may miss all of them
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 * perKind {
			out = append(out, corruption{name, "flip", i * int(info.Size()) / (10 * perKind), 1 << (i % 8)})
		}
	}
	return out
}

// TestDamageIsDetected damages one file of a store at a time. For each of five histories, `make test` makes 5 changes
// to each kind of file, and 50 more to each manifest. GATEWRIGHT_SIMULATIONS multiplies these numbers, by at most ten.
// Either the start is refused with an error of one line and changes no file, or the store serves all acknowledged data.
// The engine reads a table only when it needs the table, so a damaged table may also cause an error of a read.
func TestDamageIsDetected(t *testing.T) {
	t.Parallel()
	perKind := min(50, simulations.Runs(5))
	if simulations.RaceEnabled { // the test has no concurrency
		perKind = 1
	}
	for _, h := range histories {
		t.Run(strings.ReplaceAll(h.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			fs, values := h.build(t)
			random := rand.New(rand.NewPCG(3, 4))
			outcomes := map[string]int{}
			if got := openCorrupted(t, cloneFS(t, fs), corruption{}, values); got != "served" {
				t.Fatalf("a start over whole files: %s, want served", got)
			}
			for _, c := range corruptions(t, fs, perKind, random) {
				copied := cloneFS(t, fs)
				c.apply(t, copied)
				outcomes[kindOf(c.file)+" "+c.kind+": "+openCorrupted(t, copied, c, values)]++
			}
			t.Log(outcomes)
		})
	}
}

func cloneFS(t *testing.T, fs vfs.FS) *vfs.MemFS {
	t.Helper()
	copied := vfs.NewMem()
	if _, err := vfs.Clone(fs, copied, folder, folder); err != nil {
		t.Fatal(err)
	}
	return copied
}

// openCorrupted starts a damaged store. It returns the outcome: refused, served, lost, or error of a read.
func openCorrupted(t *testing.T, fs *vfs.MemFS, c corruption, values map[string]string) string {
	t.Helper()
	before := storeFiles(t, fs)
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, MemTableBytes: smallMemTable})
	if err != nil {
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "restore the last backup") {
			t.Errorf("%v: Open() = %q, want one line with \"restore the last backup\"", c, text)
		}
		if after := storeFiles(t, fs); !maps.Equal(before, after) {
			t.Errorf("%v: files after a refused start differ, want none changed", c)
		}
		return "refused"
	}
	defer func() { _ = engine.Close() }()
	items := 0
	for name, want := range values {
		if !strings.HasPrefix(name, noteNamePrefix) {
			items++
		}
		got, err := readValue(t, engine, name)
		if err != nil && strings.HasSuffix(c.file, ".sst") {
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "restore the last backup") {
				t.Errorf("%v: read %s = %q, want one line with \"restore the last backup\"", c, name, text)
			}
			return "error of a read"
		}
		if err != nil || got != want {
			t.Errorf("%v: read %s = %.10q, %v, want %.10q", c, name, got, err, want)
			return "lost"
		}
	}
	if n, err := tableOver(engine).Count(t.Context(), store.Query{PK: "p"}); err != nil || n != items {
		if !strings.HasSuffix(c.file, ".sst") || err == nil {
			t.Errorf("%v: Count() = %d, %v, want %d", c, n, err, items)
		}
	}
	return "served"
}

// storeFiles returns the files of the store except the lock, by their names.
func storeFiles(t *testing.T, fs *vfs.MemFS) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name := range fileSizes(t, fs, folder) {
		if info, err := fs.Stat(name); err == nil && !info.IsDir() && path.Base(name) != "LOCK" {
			all[name] = string(content(t, fs, name))
		}
	}
	return all
}

// TestTruncatedOlderLogIsRefused cuts a log whose changes are not in a table yet, while a newer
// log has the last change. Pebble accepts such a log as complete if it ends with a whole record.
func TestTruncatedOlderLogIsRefused(t *testing.T) {
	disk := vfs.NewCrashableMem()
	// This start creates the files. After it, no log contains the writes that created them.
	if err := open(t, embedded.Options{Dir: folder, FS: disk}).Close(); err != nil {
		t.Fatal(err)
	}
	var stall sync.RWMutex
	stalled := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			stall.RLock()
			defer stall.RUnlock()
		}
		return nil
	}))
	engine := open(t, embedded.Options{Dir: folder, FS: stalled, MemTableBytes: 256 << 10})
	table := tableOver(engine)
	stall.Lock()
	commits := 0
	for logs := 0; logs < 2; commits++ { // until another log has begun
		put(t, table, commits)
		logs = 0
		for name := range fileSizes(t, disk, folder) {
			if strings.HasSuffix(name, ".log") {
				logs++
			}
		}
	}
	put(t, table, commits)
	commits++
	crashedFS := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	stall.Unlock()
	if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: cloneFS(t, crashedFS)}))); n != commits {
		t.Fatalf("Count() over whole files = %d, want %d", n, commits)
	}
	newestLog := newestFile(t, crashedFS, ".log")
	for name := range fileSizes(t, crashedFS, folder) {
		if !strings.HasSuffix(name, ".log") || name == newestLog {
			continue
		}
		full := content(t, crashedFS, name)
		for size := 0; size < len(full); size += max(1, len(full)/20) {
			truncated := cloneFS(t, crashedFS)
			replace(t, truncated, name, full[:size])
			b, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: truncated})
			if err == nil {
				t.Errorf("Open() with %d of %d bytes of %s = a store of %d items, want a refusal", size, len(full), name,
					count(t, tableOver(b)))
				_ = b.Close()
			}
		}
	}
}

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

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// history says how the files of a store are made.
type history struct {
	name string
	// lives is the number of starts. The last life ends like a kill, the others with Close.
	lives int
	// commits is the number of commits in each life, of 500 bytes each.
	commits int
}

// smallMemTable makes the engine flush every hundred commits. The engine also flushes at each start, and compacts some tables into one.
const smallMemTable = 64 << 10

var histories = []history{
	{"one life in the log", 1, 40},
	{"a restart", 2, 40},
	{"flushes in one life", 1, 500},
	{"many restarts", 9, 20},
	{"flushes and compactions over restarts", 4, 700},
}

// live makes the files of a history, and returns them with the values of all its items and notes.
func (h history) live(t *testing.T) (*vfs.MemFS, map[string]string) {
	t.Helper()
	fs, values := vfs.NewCrashableMem(), map[string]string{}
	random := rand.New(rand.NewPCG(1, 2))
	for life := range h.lives {
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
			key := numbered(random.IntN(h.commits * h.lives))
			if err := table.Commit(t.Context(), store.Put(key, map[string]any{"v": string(value)})); err != nil {
				t.Fatal(err)
			}
			values[key.SK] = string(value)
			if n%10 == 0 {
				if err := engine.SetNotes(map[string][]byte{key.SK: value[:10]}); err != nil {
					t.Fatal(err)
				}
				values[noteStart+key.SK] = string(value[:10])
			}
		}
		if life < h.lives-1 {
			if err := engine.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: random}) // as it is now
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
		return killed, values
	}
	return nil, nil
}

// noteStart is the prefix of a note's name in the values of a history.
const noteStart = "note "

// readValue returns the value of an item or a note.
func readValue(t *testing.T, engine *embedded.Backend, name string) (string, error) {
	t.Helper()
	if note, ok := strings.CutPrefix(name, noteStart); ok {
		value, err := engine.Note(note)
		return string(value), err
	}
	var got struct {
		V string `dynamodbav:"v"`
	}
	err := tableOver(engine).Load(t.Context(), store.Want(store.Key{PK: "p", SK: name}, &got))
	return got.V, err
}

// kindOf returns the kind of a file, or "" if the file holds no data.
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

// hurt is a change of one file.
type hurt struct {
	file string
	how  string // "flip", "cut" or "remove"
	at   int    // of the byte
	bit  byte
}

func (h hurt) String() string { return fmt.Sprintf("%s %s at %d (%#x)", h.how, h.file, h.at, h.bit) }

func (h hurt) apply(t *testing.T, fs vfs.FS) {
	t.Helper()
	if h.how == "remove" {
		if err := fs.Remove(h.file); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw := content(t, fs, h.file)
	if h.how == "cut" {
		raw = raw[:h.at]
	} else {
		raw[h.at] ^= h.bit
	}
	replace(t, fs, h.file, raw)
}

// hurts returns the given number of changes for each kind of file in fs, ten times as many for manifests, and the removal of each file.
func hurts(t *testing.T, fs *vfs.MemFS, places int, random *rand.Rand) (out []hurt) {
	t.Helper()
	kinds := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(listed(t, fs, folder))) {
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if kind := kindOf(name); kind != "" && !info.IsDir() {
			out = append(out, hurt{file: name, how: "remove"})
			if info.Size() > 0 {
				kinds[kind] = append(kinds[kind], name)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for range places {
			name := kinds[kind][random.IntN(len(kinds[kind]))]
			info, err := fs.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			at := random.IntN(int(info.Size()))
			if random.IntN(3) == 0 { // the end of a file describes the rest
				at = max(0, int(info.Size())-1-random.IntN(64))
			}
			out = append(out, hurt{name, []string{"flip", "cut"}[random.IntN(2)], at, 1 << random.IntN(8)})
		}
	}
	for _, name := range kinds["MANIFEST"] { // few bits of it matter, so that places at random may miss all of them
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 * places {
			out = append(out, hurt{name, "flip", i * int(info.Size()) / (10 * places), 1 << (i % 8)})
		}
	}
	return out
}

// TestDamageIsNeverSilent damages one file of a store, at 50 places of each kind of file, and a manifest at 500
// more, over five histories (a tenth in `make test`).
// Either the start is refused with one line and changes no file, or it serves everything that was acknowledged. The engine reads a
// table when it needs it, so a damaged table may also be the error of a read.
func TestDamageIsNeverSilent(t *testing.T) {
	t.Parallel()
	places := min(50, simulations.Runs(5))
	if simulations.Racing { // one thing happens at a time
		places = 1
	}
	for _, h := range histories {
		t.Run(strings.ReplaceAll(h.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			fs, values := h.live(t)
			random := rand.New(rand.NewPCG(3, 4))
			outcomes := map[string]int{}
			if got := startHurt(t, copyOf(t, fs), hurt{}, values); got != "served" {
				t.Fatalf("a start over whole files: %s, want served", got)
			}
			for _, hurt := range hurts(t, fs, places, random) {
				copied := copyOf(t, fs)
				hurt.apply(t, copied)
				outcomes[kindOf(hurt.file)+" "+hurt.how+": "+startHurt(t, copied, hurt, values)]++
			}
			t.Log(outcomes)
		})
	}
}

func copyOf(t *testing.T, fs vfs.FS) *vfs.MemFS {
	t.Helper()
	copied := vfs.NewMem()
	if _, err := vfs.Clone(fs, copied, folder, folder); err != nil {
		t.Fatal(err)
	}
	return copied
}

// startHurt starts a damaged store and returns the outcome.
func startHurt(t *testing.T, fs *vfs.MemFS, h hurt, values map[string]string) string {
	t.Helper()
	before := contents(t, fs)
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, MemTableBytes: smallMemTable})
	if err != nil {
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "restore the last backup") {
			t.Errorf("%v: Open = %q, want one line that says what to do", h, text)
		}
		if after := contents(t, fs); !maps.Equal(before, after) {
			t.Errorf("%v: files after a refused start differ, want none changed", h)
		}
		return "refused"
	}
	defer func() { _ = engine.Close() }()
	items := 0
	for name, want := range values {
		if !strings.HasPrefix(name, noteStart) {
			items++
		}
		got, err := readValue(t, engine, name)
		if err != nil && strings.HasSuffix(h.file, ".sst") {
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "restore the last backup") {
				t.Errorf("%v: read %s = %q, want one line that says what to do", h, name, text)
			}
			return "error of a read"
		}
		if err != nil || got != want {
			t.Errorf("%v: read %s = %.10q, %v, want %.10q", h, name, got, err, want)
			return "lost"
		}
	}
	if n, err := tableOver(engine).Count(t.Context(), store.Query{PK: "p"}); err != nil || n != items {
		if !strings.HasSuffix(h.file, ".sst") || err == nil {
			t.Errorf("%v: Count = %d, %v, want %d", h, n, err, items)
		}
	}
	return "served"
}

// contents returns the files of the store except the lock, by their names.
func contents(t *testing.T, fs *vfs.MemFS) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name := range listed(t, fs, folder) {
		if info, err := fs.Stat(name); err == nil && !info.IsDir() && path.Base(name) != "LOCK" {
			all[name] = string(content(t, fs, name))
		}
	}
	return all
}

// TestCutOfAnEarlierLogIsRefused cuts a log whose table is not on disk yet while a newer log has the last change: Pebble takes a log
// that ends with a whole record for a whole log.
func TestCutOfAnEarlierLogIsRefused(t *testing.T) {
	disk := vfs.NewCrashableMem()
	if err := open(t, embedded.Options{Dir: folder, FS: disk}).Close(); err != nil { // what a first start writes is in no log after this
		t.Fatal(err)
	}
	var held sync.RWMutex
	stalled := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			held.RLock()
			defer held.RUnlock()
		}
		return nil
	}))
	engine := open(t, embedded.Options{Dir: folder, FS: stalled, MemTableBytes: 256 << 10})
	table := tableOver(engine)
	held.Lock()
	commits := 0
	for logs := 0; logs < 2; commits++ { // until another log has begun
		put(t, table, commits)
		logs = 0
		for name := range listed(t, disk, folder) {
			if strings.HasSuffix(name, ".log") {
				logs++
			}
		}
	}
	put(t, table, commits)
	commits++
	killed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	held.Unlock()
	if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: copyOf(t, killed)}))); n != commits {
		t.Fatalf("Count over whole files = %d, want %d", n, commits)
	}
	newestLog := newest(t, killed, ".log")
	for name := range listed(t, killed, folder) {
		if !strings.HasSuffix(name, ".log") || name == newestLog {
			continue
		}
		whole := content(t, killed, name)
		for at := 0; at < len(whole); at += max(1, len(whole)/20) {
			cut := copyOf(t, killed)
			replace(t, cut, name, whole[:at])
			b, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: cut})
			if err == nil {
				t.Errorf("Open with %d of %d bytes of %s = a store of %d items, want a refusal", at, len(whole), name, count(t, tableOver(b)))
				_ = b.Close()
			}
		}
	}
}

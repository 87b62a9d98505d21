package backup_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// installation is an opened data directory.
type installation struct {
	dir     string
	engine  *embedded.Backend
	objects *files.Bucket
	table   *store.Table
	key     *seal.File
	stop    func() error
}

// start opens a data directory like the product. It creates the files that are missing.
func start(ctx context.Context, dir string) (*installation, error) {
	i := &installation{dir: dir}
	var err error
	if i.engine, err = embedded.Open(ctx, embedded.Options{Dir: filepath.Join(dir, "engine")}); err != nil {
		return nil, err
	}
	i.stop = sync.OnceValue(i.engine.Close)
	if i.key, err = rootkey.Open(ctx, filepath.Join(dir, rootkey.Name), i.engine); err != nil {
		return nil, errors.Join(err, i.stop())
	}
	i.objects, err = files.Open(files.Options{Dir: filepath.Join(dir, "objects"), Notes: i.engine, Now: time.Now})
	if err != nil {
		return nil, errors.Join(err, i.stop())
	}
	i.table = store.New(i.engine, store.Options{Random: rand.Reader, Now: time.Now})
	return i, nil
}

func mustStart(t *testing.T, dir string) *installation {
	t.Helper()
	i, err := start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.stop() })
	return i
}

func (i *installation) write(ctx context.Context, w io.Writer) error {
	_, err := backup.Write(ctx, backup.Source{Dir: i.dir, Engine: i.engine, Objects: i.objects, Now: time.Now}, w)
	return err
}

// record is an item of the tests. A commit always writes two equal records. A record names
// an object, which is stored before the record, and deleted after no record names it.
type record struct {
	N      int    `dynamodbav:"n"`
	Object string `dynamodbav:"object"`
}

// pairKeys returns the keys of the two records that each commit of a writer writes.
func pairKeys(writer int) (a, b store.Key) {
	return store.Key{PK: fmt.Sprint("writer-", writer), SK: "a"}, store.Key{PK: fmt.Sprint("other-", writer), SK: "b"}
}

func objectNameOf(writer, n int) string { return fmt.Sprintf("artifacts/%d-%d", writer, n) }

func objectContent(object string) string { return strings.Repeat(object+"\n", 50) }

// put does the n-th commit of a writer: it stores an object, commits
// two records that name it, and deletes the previous object.
func (i *installation) put(ctx context.Context, writer, n int) error {
	object := objectNameOf(writer, n)
	if err := i.objects.Put(ctx, object, strings.NewReader(objectContent(object))); err != nil {
		return err
	}
	a, b := pairKeys(writer)
	if err := i.table.Commit(ctx, store.Put(a, record{n, object}), store.Put(b, record{n, object})); err != nil {
		return err
	}
	return i.objects.Delete(ctx, objectNameOf(writer, n-1))
}

// lastCommit returns the number of a writer's last commit. It returns
// an error if the commit is incomplete or names a missing object.
func (i *installation) lastCommit(ctx context.Context, writer int) (int, error) {
	a, b := pairKeys(writer)
	var first, second record
	err := i.table.Load(ctx, store.Get(a, &first), store.Get(b, &second))
	if err != nil || (first == record{} && second == record{}) {
		return 0, err
	}
	if first != second {
		return 0, fmt.Errorf("half a commit: %v and %v", first, second)
	}
	body, _, err := i.objects.Get(ctx, first.Object, "", 1<<20)
	if err != nil {
		return 0, fmt.Errorf("the object %s of a record: %w", first.Object, err)
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	if err == nil && string(content) != objectContent(first.Object) {
		err = fmt.Errorf("the object %s has another content", first.Object)
	}
	return first.N, err
}

// writers do commits until they are stopped. committed has the number of the last acknowledged commit of each writer.
type writers struct {
	committed []atomic.Int64
	running   atomic.Bool
	wg        sync.WaitGroup
}

func (i *installation) startWriters(ctx context.Context, n int, onError func(error)) *writers {
	w := &writers{committed: make([]atomic.Int64, n)}
	w.running.Store(true)
	for writer := range n {
		w.wg.Go(func() {
			from, err := i.lastCommit(ctx, writer)
			for n := from + 1; err == nil && w.running.Load(); n++ {
				if err = i.put(ctx, writer, n); err == nil {
					w.committed[writer].Store(int64(n))
				}
			}
			if err != nil {
				onError(err)
			}
		})
	}
	return w
}

func (w *writers) stop() {
	w.running.Store(false)
	w.wg.Wait()
}

func TestBackupDuringWrites(t *testing.T) {
	const count, rounds = 16, 3
	source := mustStart(t, t.TempDir())
	key, err := source.key.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source.dir, "account-key"), []byte("gw_demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := source.startWriters(t.Context(), count, func(err error) { t.Errorf("a writer fails: %v, want no error", err) })
	defer w.stop()
	for n := range count { // wait for the first commit of each writer, which can take long on a slow disk
		for w.committed[n].Load() == 0 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	for round := range rounds {
		time.Sleep(200 * time.Millisecond)
		var before [count]int64
		for n := range before {
			before[n] = w.committed[n].Load()
		}
		parent := t.TempDir()
		file, dir := filepath.Join(parent, "file.backup"), filepath.Join(parent, "data")
		if err := backup.Create(file, source.dir, func(to io.Writer) error {
			return source.write(t.Context(), to)
		}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the backup = %v, want 0600", info.Mode())
		}
		summary, err := backup.Restore(t.Context(), file, dir)
		if err != nil {
			t.Fatal(err)
		}
		if summary.Objects < count || summary.Bytes == 0 || summary.CreatedOn.IsZero() {
			t.Errorf("summary = %+v, want at least %d objects, a size and a time", summary, count)
		}
		restored := mustStart(t, dir)
		for n := range count {
			got, err := restored.lastCommit(t.Context(), n)
			if err != nil || got < int(before[n]) {
				t.Errorf("round %d: last commit of writer %d = %d, %v, want at least %d", round, n, got, err, before[n])
			}
			if err := restored.put(t.Context(), n, got+1); err != nil {
				t.Errorf("put() after the restore = %v, want no error", err)
			}
		}
		if got, err := restored.key.Root(t.Context()); err != nil || !bytes.Equal(got, key) {
			t.Errorf("root key of the restored directory differs (%v), want the same", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "account-key")); err != nil || string(got) != "gw_demo\n" {
			t.Errorf("account key = %q, %v, want %q", got, err, "gw_demo\n")
		}
		checkModes(t, dir)
		for _, checked := range []string{parent, source.dir} {
			for _, name := range fileNames(t, checked) {
				if strings.Contains(name, "unfinished") || strings.Contains(name, "restoring") || name == "backup" {
					t.Errorf("%s contains %s, want no leftovers", checked, name)
				}
			}
		}
	}
}

// checkModes checks that only the owner can access restored files.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{".", "root.key", "account-key", "engine/acknowledged", "objects"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: Stat() = %v, %v, want a mode without access for others", name, info, err)
		}
	}
}

func fileNames(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// newBackup creates a stopped installation with a few commits, and a backup of it.
func newBackup(t *testing.T) (dir, file string) {
	t.Helper()
	return newBackupWith(t)
}

// newBackupWith is newBackup with additional items. Most of them
// are in a part of the store's files that a start does not read.
func newBackupWith(t *testing.T, extra ...store.Write) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	i := mustStart(t, dir)
	for n := range 3 {
		if err := i.put(t.Context(), n, 1); err != nil {
			t.Fatal(err)
		}
		if n == 0 && len(extra) > 0 {
			if err := errors.Join(i.table.Commit(t.Context(), extra...), i.stop()); err != nil {
				t.Fatal(err)
			}
			i = mustStart(t, dir) // moves the items from the log into a table file
		}
	}
	file = filepath.Join(t.TempDir(), "file.backup")
	if err := backup.Create(file, dir, func(to io.Writer) error { return i.write(t.Context(), to) }); err != nil {
		t.Fatal(err)
	}
	if err := i.stop(); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// checkContent returns an error unless the data directory has the content that newBackup has written.
func checkContent(ctx context.Context, dir string) error {
	i, err := start(ctx, dir)
	if err != nil {
		return err
	}
	for n := range 3 {
		if got, lastErr := i.lastCommit(ctx, n); lastErr != nil || got != 1 {
			err = errors.Join(err, fmt.Errorf("writer %d has %d: %w", n, got, lastErr))
		}
	}
	return errors.Join(err, i.stop())
}

func TestCopyOfAStoppedInstallationStarts(t *testing.T) {
	dir, _ := newBackup(t)
	for name, commands := range map[string]func(to string) [][]string{
		"cp": func(to string) [][]string { return [][]string{{"cp", "-r", dir, to}} },
		"tar": func(to string) [][]string {
			return [][]string{{"tar", "-cf", to + ".tar", "-C", dir, "."}, {"tar", "-xf", to + ".tar", "-C", to}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			if name == "cp" {
				to = filepath.Join(to, "copy")
			}
			for _, command := range commands(to) {
				if _, err := exec.LookPath(command[0]); err != nil {
					t.Skip(err)
				}
				if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v = %v, want success: %s", command, err, out)
				}
			}
			if err := checkContent(t.Context(), to); err != nil {
				t.Errorf("content of the copy %s: %v, want that of newBackup", to, err)
			}
		})
	}
}

func TestRestoreIntoNonEmptyDirIsRefused(t *testing.T) {
	dir, file := newBackup(t)
	before := fileNames(t, dir)
	if _, err := backup.Restore(t.Context(), file, dir); err == nil ||
		!strings.Contains(err.Error(), "holds something already") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Restore(non-empty directory) = %v, want one line with \"holds something already\"", err)
	}
	if got := fileNames(t, dir); !slices.Equal(got, before) {
		t.Errorf("files after the refusal = %v, want %v", got, before)
	}
	if err := checkContent(t.Context(), dir); err != nil {
		t.Errorf("content of %s after the refusal: %v, want it unchanged", dir, err)
	}
	if _, err := backup.Restore(t.Context(), filepath.Join(t.TempDir(), "absent"),
		filepath.Join(t.TempDir(), "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Restore(absent file) = %v, want %v", err, os.ErrNotExist)
	}
}

func TestConcurrentBackupIsRefused(t *testing.T) {
	i := mustStart(t, t.TempDir())
	err := i.write(t.Context(), writerFunc(func(p []byte) (int, error) {
		if err := i.write(t.Context(), io.Discard); !errors.Is(err, staging.ErrInUse) {
			t.Errorf("concurrent backup = %v, want %v", err, staging.ErrInUse)
		}
		return len(p), nil
	}))
	if err != nil {
		t.Errorf("first backup = %v, want no error", err)
	}
	if err := i.write(t.Context(), io.Discard); err != nil {
		t.Errorf("backup after the first = %v, want no error", err)
	}
}

// deletingEngine deletes an object right after the checkpoint that names it.
type deletingEngine struct {
	*embedded.Backend
	objects *files.Bucket
}

func (d deletingEngine) Checkpoint(ctx context.Context, dir string) error {
	return errors.Join(d.Backend.Checkpoint(ctx, dir), d.objects.Delete(ctx, objectNameOf(0, 1)))
}

func TestObjectDeletedDuringBackupIsIncluded(t *testing.T) {
	dir, file := newBackup(t)
	i := mustStart(t, dir)
	source := backup.Source{Dir: dir, Engine: deletingEngine{i.engine, i.objects}, Objects: i.objects, Now: time.Now}
	err := backup.Create(file, dir, func(to io.Writer) error {
		_, err := backup.Write(t.Context(), source, to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "data")
	if _, err := backup.Restore(t.Context(), file, target); err != nil {
		t.Fatal(err)
	}
	if err := checkContent(t.Context(), target); err != nil {
		t.Errorf("content of %s: %v, want that of the backup", target, err)
	}
	if contents, err := filepath.Glob(filepath.Join(dir, "objects", "??", "*")); err != nil || len(contents) != 2 {
		t.Errorf("%d contents after the backup (%v), want 2, one per object", len(contents), err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestFailedBackupKeepsThePreviousOne checks that after a failed
// backup, the previous file is unchanged, and no other files are left.
func TestFailedBackupKeepsThePreviousOne(t *testing.T) {
	dir, file := newBackup(t)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := mustStart(t, dir)
	errFull := errors.New("no space left")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, write := range map[error]func(io.Writer) error{
		errFull: func(io.Writer) error {
			return i.write(t.Context(), writerFunc(func([]byte) (int, error) { return 0, errFull }))
		},
		context.Canceled: func(to io.Writer) error { return i.write(canceled, to) },
	} {
		if err := backup.Create(file, dir, write); !errors.Is(err, want) {
			t.Errorf("Create() = %v, want %v", err, want)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the previous backup differs (%v), want it unchanged", err)
	}
	if got := fileNames(t, filepath.Dir(file)); len(got) != 1 {
		t.Errorf("files = %v, want the previous backup only", got)
	}
}

// TestBackupOfDamagedInstallationFails checks that a backup fails and leaves no file if a file of the
// installation is damaged or missing.
func TestBackupOfDamagedInstallationFails(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"a missing object": {func(dir string) error { return os.Remove(objectPath(t, dir)) }, "objects/"},
		"a longer object":  {func(dir string) error { return appendTo(objectPath(t, dir)) }, "is damaged"},
		"a changed object": {func(dir string) error {
			content, err := os.ReadFile(objectPath(t, dir))
			return errors.Join(err, os.WriteFile(objectPath(t, dir), append([]byte{content[0] ^ 1}, content[1:]...), 0o600))
		}, "is damaged"},
		"no root key": {func(dir string) error { return os.Remove(filepath.Join(dir, "root.key")) }, "root.key"},
		"a foreign root key": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "root.key"), make([]byte, seal.KeyBytes), 0o600)
		}, "put the right root.key back"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := newBackup(t)
			i := mustStart(t, dir)
			if err := test.damage(dir); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "file.backup")
			err := backup.Create(file, dir, func(to io.Writer) error { return i.write(t.Context(), to) })
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Create() = %v, want one line with %q", err, test.want)
			}
			if got := fileNames(t, filepath.Dir(file)); len(got) != 0 {
				t.Errorf("files = %v, want none", got)
			}
		})
	}
}

// objectPath returns the path of an object's file.
func objectPath(t *testing.T, dir string) string {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(dir, "objects", "??", "*"))
	if err != nil || len(matches) == 0 {
		t.Fatalf("Glob() of objects = %q, %v, want at least one", matches, err)
	}
	return matches[0]
}

func appendTo(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("more")
	return errors.Join(err, file.Close())
}

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
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
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

// start opens a data directory as the product does, and makes it.
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

func started(t *testing.T, dir string) *installation {
	t.Helper()
	i, err := start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.stop() })
	return i
}

func (i *installation) write(ctx context.Context, to io.Writer) error {
	_, err := backup.Write(ctx, backup.Source{Dir: i.dir, Engine: i.engine, Objects: i.objects, Now: time.Now}, to)
	return err
}

// record is one of two items that a commit always writes together. It names an
// object, which is there before it and is deleted when no record names it.
type record struct {
	N      int    `dynamodbav:"n"`
	Object string `dynamodbav:"object"`
}

func pairOf(writer int) (a, b store.Key) {
	return store.Key{PK: fmt.Sprint("writer-", writer), SK: "a"}, store.Key{PK: fmt.Sprint("other-", writer), SK: "b"}
}

func objectOf(writer, n int) string { return fmt.Sprintf("artifacts/%d-%d", writer, n) }

func contentOf(object string) string { return strings.Repeat(object+"\n", 50) }

// put has a writer make its n-th commit.
func (i *installation) put(ctx context.Context, writer, n int) error {
	object := objectOf(writer, n)
	if err := i.objects.Put(ctx, object, strings.NewReader(contentOf(object))); err != nil {
		return err
	}
	a, b := pairOf(writer)
	if err := i.table.Commit(ctx, store.Put(a, record{n, object}), store.Put(b, record{n, object})); err != nil {
		return err
	}
	return i.objects.Delete(ctx, objectOf(writer, n-1))
}

// last gives a writer's last commit, and an error if it is torn or names an
// object that is not there.
func (i *installation) last(ctx context.Context, writer int) (int, error) {
	a, b := pairOf(writer)
	var first, second record
	err := i.table.Load(ctx, store.Want(a, &first), store.Want(b, &second))
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
	if err == nil && string(content) != contentOf(first.Object) {
		err = fmt.Errorf("the object %s has another content", first.Object)
	}
	return first.N, err
}

// writers commit until their end; answered is how far each has come.
type writers struct {
	answered []atomic.Int64
	going    atomic.Bool
	all      sync.WaitGroup
}

func (i *installation) begin(ctx context.Context, n int, failed func(error)) *writers {
	w := &writers{answered: make([]atomic.Int64, n)}
	w.going.Store(true)
	for number := range n {
		w.all.Go(func() {
			from, err := i.last(ctx, number)
			for n := from + 1; err == nil && w.going.Load(); n++ {
				if err = i.put(ctx, number, n); err == nil {
					w.answered[number].Store(int64(n))
				}
			}
			if err != nil {
				failed(err)
			}
		})
	}
	return w
}

func (w *writers) end() {
	w.going.Store(false)
	w.all.Wait()
}

func TestBackupUnderWriters(t *testing.T) {
	const count, rounds = 16, 3
	source := started(t, t.TempDir())
	key, err := source.key.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source.dir, "account-key"), []byte("gw_demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := source.begin(t.Context(), count, func(err error) { t.Error(err) })
	defer w.end()
	for n := range count { // a slow disk takes its time for the first of each
		for w.answered[n].Load() == 0 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	for round := range rounds {
		time.Sleep(200 * time.Millisecond)
		var before [count]int64
		for n := range before {
			before[n] = w.answered[n].Load()
		}
		elsewhere := t.TempDir()
		file, dir := filepath.Join(elsewhere, "file.backup"), filepath.Join(elsewhere, "data")
		if err := backup.Create(file, source.dir, func(to io.Writer) error { return source.write(t.Context(), to) }); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup has the mode %v (%v)", info.Mode(), err)
		}
		sum, err := backup.Restore(t.Context(), file, dir)
		if err != nil {
			t.Fatal(err)
		}
		if sum.Objects < count || sum.Bytes == 0 || sum.MadeOn.IsZero() {
			t.Errorf("it says that it holds %+v", sum)
		}
		restored := started(t, dir)
		for n := range count {
			got, err := restored.last(t.Context(), n)
			if err != nil || got < int(before[n]) {
				t.Errorf("round %d: writer %d has %d, and had %d before the backup began (%v)", round, n, got, before[n], err)
			}
			if err := restored.put(t.Context(), n, got+1); err != nil {
				t.Errorf("it does not go on: %v", err)
			}
		}
		if got, err := restored.key.Root(t.Context()); err != nil || !bytes.Equal(got, key) {
			t.Errorf("it has another root key (%v)", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "account-key")); err != nil || string(got) != "gw_demo\n" {
			t.Errorf("it has the account key %q (%v)", got, err)
		}
		checkModes(t, dir)
		for _, left := range []string{elsewhere, source.dir} {
			for _, name := range names(t, left) {
				if strings.Contains(name, "unfinished") || strings.Contains(name, "restoring") || name == "backup" {
					t.Errorf("%s is left in %s", name, left)
				}
			}
		}
	}
}

// checkModes looks that what was restored is for its owner alone.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{".", "root.key", "account-key", "engine/acknowledged", "objects"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		out = append(out, e.Name())
	}
	return out
}

// made makes an installation with a few commits, stopped, and a backup of it.
func made(t *testing.T) (dir, file string) {
	t.Helper()
	return madeOf(t)
}

// madeOf has other items too, most of which no start reads, in a table.
func madeOf(t *testing.T, others ...store.Write) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	i := started(t, dir)
	for n := range 3 {
		if err := i.put(t.Context(), n, 1); err != nil {
			t.Fatal(err)
		}
		if n == 0 && len(others) > 0 {
			if err := errors.Join(i.table.Commit(t.Context(), others...), i.stop()); err != nil {
				t.Fatal(err)
			}
			i = started(t, dir) // their log becomes a table
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

// whole refuses a data directory that is not what made makes.
func whole(ctx context.Context, dir string) error {
	i, err := start(ctx, dir)
	if err != nil {
		return err
	}
	for n := range 3 {
		if got, lastErr := i.last(ctx, n); lastErr != nil || got != 1 {
			err = errors.Join(err, fmt.Errorf("writer %d has %d: %w", n, got, lastErr))
		}
	}
	return errors.Join(err, i.stop())
}

func TestCopyOfAStoppedInstallationStarts(t *testing.T) {
	dir, _ := made(t)
	for name, copied := range map[string]func(to string) [][]string{
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
			for _, command := range copied(to) {
				if _, err := exec.LookPath(command[0]); err != nil {
					t.Skip(err)
				}
				if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if err := whole(t.Context(), to); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRestoreTakesNoPlaceOfOthers(t *testing.T) {
	dir, file := made(t)
	before := names(t, dir)
	if _, err := backup.Restore(t.Context(), file, dir); err == nil || !strings.Contains(err.Error(), "holds something already") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it is answered with %v", err)
	}
	if got := names(t, dir); !slices.Equal(got, before) {
		t.Errorf("what was there became %v", got)
	}
	if err := whole(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := backup.Restore(t.Context(), filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there is answered with %v", err)
	}
}

func TestOneBackupAtATime(t *testing.T) {
	i := started(t, t.TempDir())
	err := i.write(t.Context(), writerFunc(func(p []byte) (int, error) {
		if err := i.write(t.Context(), io.Discard); !errors.Is(err, staging.ErrInUse) {
			t.Errorf("a second one is answered with %v", err)
		}
		return len(p), nil
	}))
	if err != nil {
		t.Error(err)
	}
	if err := i.write(t.Context(), io.Discard); err != nil {
		t.Errorf("the next one is answered with %v", err)
	}
}

// deleting deletes an object right after the checkpoint that names it.
type deleting struct {
	*embedded.Backend
	objects *files.Bucket
}

func (d deleting) Checkpoint(ctx context.Context, dir string) error {
	return errors.Join(d.Backend.Checkpoint(ctx, dir), d.objects.Delete(ctx, objectOf(0, 1)))
}

func TestObjectThatIsDeletedMeanwhileIsThere(t *testing.T) {
	dir, file := made(t)
	i := started(t, dir)
	source := backup.Source{Dir: dir, Engine: deleting{i.engine, i.objects}, Objects: i.objects, Now: time.Now}
	err := backup.Create(file, dir, func(to io.Writer) error {
		_, err := backup.Write(t.Context(), source, to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "data")
	if _, err := backup.Restore(t.Context(), file, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := whole(t.Context(), elsewhere); err != nil {
		t.Error(err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "objects", "??", "*")); err != nil || len(found) != 2 {
		t.Errorf("afterwards %d contents of two objects are left (%v)", len(found), err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// What ends a backup leaves the file that was there, and nothing else.
func TestEndedBackupLeavesTheLastOne(t *testing.T) {
	dir, file := made(t)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := started(t, dir)
	full := errors.New("no space left")
	ended, end := context.WithCancel(t.Context())
	end()
	for want, write := range map[error]func(io.Writer) error{
		full: func(io.Writer) error {
			return i.write(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full }))
		},
		context.Canceled: func(to io.Writer) error { return i.write(ended, to) },
	} {
		if err := backup.Create(file, dir, write); !errors.Is(err, want) {
			t.Errorf("it is answered with %v, want %v", err, want)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the last backup is another one (%v)", err)
	}
	if got := names(t, filepath.Dir(file)); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// A file that the disk has damaged ends the backup, and no backup is made that
// lacks it.
func TestDamagedInstallationIsNotBackedUp(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"an object that is gone":   {func(dir string) error { return os.Remove(object(t, dir)) }, "objects/"},
		"an object that is longer": {func(dir string) error { return appendTo(object(t, dir)) }, "is damaged"},
		"an object that changed": {func(dir string) error {
			content, err := os.ReadFile(object(t, dir))
			return errors.Join(err, os.WriteFile(object(t, dir), append([]byte{content[0] ^ 1}, content[1:]...), 0o600))
		}, "is damaged"},
		"no root key": {func(dir string) error { return os.Remove(filepath.Join(dir, "root.key")) }, "root.key"},
		"a foreign root key": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "root.key"), make([]byte, seal.KeyBytes), 0o600)
		}, "put the right root.key back"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := made(t)
			i := started(t, dir)
			if err := test.damage(dir); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "file.backup")
			err := backup.Create(file, dir, func(to io.Writer) error { return i.write(t.Context(), to) })
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it is answered with %v", err)
			}
			if got := names(t, filepath.Dir(file)); len(got) != 0 {
				t.Errorf("there is %v", got)
			}
		})
	}
}

// object gives the path of some object's file.
func object(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "objects", "??", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no object (%v)", err)
	}
	return found[0]
}

func appendTo(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("more")
	return errors.Join(err, file.Close())
}

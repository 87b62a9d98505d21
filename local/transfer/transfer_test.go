package transfer_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

var now = time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC)

func clock() time.Time { return now }

// root is the root key of the source installations.
var root = bytes.Repeat([]byte{7}, seal.KeyBytes)

type rootSource []byte

func (r rootSource) Root(context.Context) ([]byte, error) { return r, nil }

// itemsOf returns the items of a table in memory.
func itemsOf(b *memory.Backend) transfer.Items {
	return func(_ context.Context, visit func(store.Item) error) error {
		for _, item := range b.Items() {
			if err := visit(item); err != nil {
				return err
			}
		}
		return nil
	}
}

func textValue(s string) store.Value { return &types.AttributeValueMemberS{Value: s} }

func itemAt(key store.Key, attributes store.Item) store.Item {
	item := key.Item()
	for name, v := range attributes {
		item[name] = v
	}
	return item
}

// fixture is an installation in memory.
type fixture struct {
	table   *memory.Backend
	objects *blob.Memory
}

// allKinds returns items that together have all kinds of values and keys.
func allKinds() []store.Item {
	var out []store.Item
	for i, v := range []store.Value{
		textValue(""), textValue("a text <&> \u2028 ☃ \x00"), &types.AttributeValueMemberN{Value: "12345678901234567890.5"},
		&types.AttributeValueMemberB{Value: []byte{0, 255, 1}}, &types.AttributeValueMemberBOOL{Value: true},
		&types.AttributeValueMemberNULL{Value: true},
		&types.AttributeValueMemberSS{Value: []string{"a", "b"}}, &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		&types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		&types.AttributeValueMemberM{Value: store.Item{"m": &types.AttributeValueMemberL{Value: []store.Value{
			textValue("x"),
			&types.AttributeValueMemberM{Value: store.Item{}},
		}}}},
		&types.AttributeValueMemberL{Value: []store.Value{}},
	} {
		out = append(out, itemAt(store.KeyIn(fmt.Sprintf("kinds#%d", i%3), fmt.Sprintf("%03d/%% #\x00☃", i)),
			store.Item{"value": v}))
	}
	return out
}

// newFilled returns an installation with 300 plain items, the items of allKinds, and four objects. All of them are
// exported.
func newFilled(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{memory.New(), blob.NewMemory(clock)}
	for i := range 300 {
		fx.put(t, itemAt(store.KeyIn("things", fmt.Sprintf("%04d", i)),
			store.Item{"n": &types.AttributeValueMemberN{Value: fmt.Sprint(i)}}))
	}
	fx.put(t, allKinds()...)
	for key, content := range map[string]string{
		"artifacts/a/1": "an artifact", "sources/a/2-ü": "a source",
		"uploads/st_1": "an upload", "truststores/x/y": "",
	} {
		if err := fx.objects.Put(t.Context(), key, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	return fx
}

func (f *fixture) put(t *testing.T, items ...store.Item) {
	t.Helper()
	for _, item := range items {
		write := store.Write{Kind: store.PutKind, Key: store.KeyOf(item), Item: item}
		if err := f.table.Transact(t.Context(), rand.Text(), []store.Write{write}); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *fixture) source() transfer.Source {
	return transfer.Source{
		Items: itemsOf(f.table), Objects: f.objects, Root: firstRoot(root),
		AccountKey: []byte("gwa_key\n"), Now: clock,
	}
}

// export writes an export and a new key, and returns the paths of both files.
func export(t *testing.T, s transfer.Source) (file, key string) {
	t.Helper()
	dir := t.TempDir()
	file, key = filepath.Join(dir, "file.data"), filepath.Join(dir, "file.key")
	if created, err := transfer.CreateKey(key); err != nil || !created {
		t.Fatalf("CreateKey() = %v, %v, want true and no error", created, err)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Write(t.Context(), s, key, out); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file, key
}

func firstRoot(key []byte) sharedrootkey.ExportedKey {
	return sharedrootkey.ExportedKey{Number: 1, Key: key}
}

// fakeKeeper is a RootKeeper that stores the root key in memory. Adopt returns no writes, and the error err.
type fakeKeeper struct {
	root []byte
	err  error
}

func (f *fakeKeeper) Root(context.Context) (sharedrootkey.ExportedKey, error) {
	return firstRoot(f.root), nil
}

func (f *fakeKeeper) Adopt(_ context.Context, root sharedrootkey.ExportedKey) ([]store.Write, error) {
	if f.err == nil {
		f.root = slices.Clone(root.Key)
	}
	return nil, f.err
}

// newRemote returns a target for an import into fx. Its table uses backend, and k stores its root key.
func newRemote(t testing.TB, fx *fixture, backend store.Backend, k *fakeKeeper) transfer.Remote {
	t.Helper()
	return transfer.Remote{
		Name: "the table t", Table: storetest.NewWithBackend(t, backend), Items: itemsOf(fx.table), Bucket: fx.objects,
		Keeper: k, Now: clock,
		PhaseOf: func(item store.Item) transfer.Phase {
			switch pk := store.KeyOf(item).PK; {
			case strings.HasPrefix(pk, "kinds#2"):
				return transfer.Live
			case strings.HasPrefix(pk, "kinds#1"):
				return transfer.Due
			}
			return transfer.Plain
		},
	}
}

func newEmptyFixture() *fixture { return &fixture{memory.New(), blob.NewMemory(clock)} }

// objectsOf returns the contents of all objects by key. If withETags is true, each content also has the object's ETag
// and time of modification.
func objectsOf(t *testing.T, o transfer.Objects, withETags bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	for object, err := range o.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := o.Get(t.Context(), object.Key, object.ETag, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			t.Fatal(err)
		}
		out[object.Key] = string(content)
		if withETags {
			out[object.Key] += object.ETag + object.Modified.String()
		}
	}
	return out
}

// directory is an imported and opened data directory.
type directory struct {
	engine  *embedded.Backend
	objects *files.Bucket
}

func openDirectory(t *testing.T, dir string) directory {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: filepath.Join(dir, datadir.Engine)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	key, err := rootkey.Open(t.Context(), filepath.Join(dir, rootkey.Name), engine)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := key.Root(t.Context()); err != nil || !bytes.Equal(got, root) {
		t.Errorf("root key of the directory differs (%v), want the same", err)
	}
	objects, err := files.Open(files.Options{Dir: filepath.Join(dir, datadir.Objects), Notes: engine, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return directory{engine, objects}
}

func (d directory) items(t *testing.T) map[store.Key]store.Item {
	t.Helper()
	out := map[store.Key]store.Item{}
	err := d.engine.EachItem(t.Context(), func(item store.Item) error {
		out[store.KeyOf(item)] = item
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var sameItems = cmp.Options{
	cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
		types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{},
		types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{},
		types.AttributeValueMemberM{}, types.AttributeValueMemberL{}),
	cmpopts.EquateEmpty(),
}

// TestInstallationMovesToDirectoryAndBack moves an installation from a table and a bucket in memory into a data
// directory, and from there into another table and bucket. Items, objects and the root key must be the same each time.
// The data directory must also have the account key.
func TestInstallationMovesToDirectoryAndBack(t *testing.T) {
	fx := newFilled(t)
	for i, v := range []store.Value{
		textValue(strings.Repeat("<", 399_000)),
		&types.AttributeValueMemberB{Value: make([]byte, 399_000)}, textValue(strings.Repeat("☃", 133_000)),
	} {
		fx.put(t, itemAt(store.KeyIn("large", fmt.Sprint(i)), store.Item{"value": v}))
	}
	file, key := export(t, fx.source())
	dir := filepath.Join(t.TempDir(), "data")
	summary, err := transfer.ImportDirectory(t.Context(), file, key, dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := (transfer.Summary{CreatedOn: now, Items: len(fx.table.Items()), Objects: 4, Bytes: 28}); summary != want {
		t.Errorf("ImportDirectory() = %+v, want %+v", summary, want)
	}
	if got, err := os.ReadFile(filepath.Join(dir, datadir.AccountKey)); err != nil || string(got) != "gwa_key\n" {
		t.Errorf("account key = %q, %v, want %q", got, err, "gwa_key\n")
	}
	d := openDirectory(t, dir)
	if diff := cmp.Diff(fx.table.Items(), d.items(t), sameItems); diff != "" {
		t.Errorf("items of the directory differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(objectsOf(t, fx.objects, true), objectsOf(t, d.objects, true)); diff != "" {
		t.Errorf("objects of the directory differ (-want +got):\n%s", diff)
	}

	file, key = export(t, transfer.Source{Items: d.engine.EachItem, Objects: d.objects, Root: firstRoot(root), Now: clock})
	target, k := newEmptyFixture(), &fakeKeeper{}
	if _, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, k)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fx.table.Items(), target.table.Items(), sameItems); diff != "" {
		t.Errorf("items of the table differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(objectsOf(t, fx.objects, false), objectsOf(t, target.objects, false)); diff != "" {
		t.Errorf("objects of the bucket differ (-want +got):\n%s", diff)
	}
	if !bytes.Equal(k.root, root) {
		t.Error("the adopted root key differs, want the same")
	}
}

// TestExportDuringRotationIsRefused checks that an export fails if it finds the record of a root
// key that is being rotated. The rotation can begin after the export has read the root key.
func TestExportDuringRotationIsRefused(t *testing.T) {
	for name, record := range map[string]store.Item{
		"a rotation that has started": {
			"rotation": &types.AttributeValueMemberM{Value: store.Item{
				"operation": textValue("root-key-rotation-2"),
				"beganOn":   textValue("2026-11-26T05:00:00Z"),
			}},
		},
		"a second root key without a rotation": {
			"other": &types.AttributeValueMemberM{Value: store.Item{
				"wrapped":   &types.AttributeValueMemberB{Value: []byte{1}},
				"createdOn": textValue("2026-11-26T05:00:00Z"),
			}},
		},
		"a root key of an unknown form": {"wrapped": textValue("no bytes")},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFilled(t)
			_, key := export(t, fx.source()) // only for the key
			fx.put(t, itemAt(store.KeyPrefix("root-key").Key(), record))
			_, err := transfer.Write(t.Context(), fx.source(), key, io.Discard)
			if name == "a root key of an unknown form" {
				if err == nil {
					t.Error("Write() error = nil, want an error about the root key's record")
				}
			} else if !errors.Is(err, sharedrootkey.ErrRotating) {
				t.Errorf("Write() error = %v, want %v", err, sharedrootkey.ErrRotating)
			}
		})
	}
}

// TestNoSecretIsInTheFile checks that the file does not contain the plain text of a key, of an item or of an object.
func TestNoSecretIsInTheFile(t *testing.T) {
	fx := newFilled(t)
	file, key := export(t, fx.source())
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keyText, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	words := bytes.Fields(keyText)
	for name, secret := range map[string][]byte{
		"the root key": root, "the account key": []byte("gwa_key"), "an item": []byte("things"),
		"an object": []byte("an artifact"), "the file's own key": words[len(words)-1],
	} {
		if bytes.Contains(raw, secret) {
			t.Errorf("the export contains %s in plain text, want it encrypted", name)
		}
	}
}

// TestLocalItemsAreNotExported checks that commit tokens, expired
// items and the wrapped root key are not exported.
func TestLocalItemsAreNotExported(t *testing.T) {
	fx := newFilled(t)
	before := fx.table.Items()
	numberValue := func(n int64) store.Value { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
	fx.put(t,
		itemAt(store.KeyPrefix("commit-token").Key("p", "1"), store.Item{"ttl": numberValue(now.Unix() + 100)}),
		itemAt(store.KeyPrefix("root-key").Key(), store.Item{"wrapped": &types.AttributeValueMemberB{Value: []byte("x")}}),
		itemAt(store.KeyPrefix("answers").Key("old"), store.Item{"ttl": numberValue(now.Unix())}))
	unexpired := itemAt(store.KeyPrefix("answers").Key("fresh"), store.Item{"ttl": numberValue(now.Unix() + 1)})
	fx.put(t, unexpired)
	before[store.KeyOf(unexpired)] = unexpired
	file, key := export(t, fx.source())
	target := newEmptyFixture()
	if _, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, &fakeKeeper{})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, target.table.Items(), sameItems); diff != "" {
		t.Errorf("imported items differ (-want +got):\n%s", diff)
	}
}

// TestChangingSourceIsRefused checks that Write returns ErrChanging if an item or an object changes while Write reads
// them.
func TestChangingSourceIsRefused(t *testing.T) {
	changes := map[string]func(*fixture){
		"an item added": func(fx *fixture) { fx.put(t, itemAt(store.KeyIn("new", "1"), nil)) },
		"an item changed": func(fx *fixture) {
			fx.put(t, itemAt(store.KeyIn("things", "0000"), store.Item{"n": textValue("other")}))
		},
		"an object added":   func(fx *fixture) { fx.objects.Upload("uploads/new", []byte("x")) },
		"an object changed": func(fx *fixture) { fx.objects.Upload("uploads/st_1", []byte("other")) },
		"an object deleted": func(fx *fixture) { _ = fx.objects.Delete(t.Context(), "uploads/st_1") },
		"no change":         nil,
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			fx := newFilled(t)
			s := fx.source()
			s.Changing = true
			scans := 0
			s.Items = func(ctx context.Context, visit func(store.Item) error) error {
				if scans++; scans == 2 && change != nil {
					change(fx)
				}
				return itemsOf(fx.table)(ctx, visit)
			}
			key := filepath.Join(t.TempDir(), "key")
			if _, err := transfer.CreateKey(key); err != nil {
				t.Fatal(err)
			}
			_, err := transfer.Write(t.Context(), s, key, io.Discard)
			if scans != 2 {
				t.Errorf("Write() scans the table %d times, want 2", scans)
			}
			if change != nil && !errors.Is(err, transfer.ErrChanging) {
				t.Errorf("Write() error = %v, want %v", err, transfer.ErrChanging)
			}
			if change == nil && err != nil {
				t.Errorf("Write() error = %v, want none", err)
			}
		})
	}
}

// TestInvalidUTF8IsRefused checks that invalid UTF-8 is rejected, and not silently changed.
func TestInvalidUTF8IsRefused(t *testing.T) {
	for name, v := range map[string]store.Value{
		"text": textValue("\xff"), "set": &types.AttributeValueMemberSS{Value: []string{"\xff"}},
		"list": &types.AttributeValueMemberL{Value: []store.Value{textValue("\xff")}},
		"name": &types.AttributeValueMemberM{Value: store.Item{"\xff": textValue("")}},
	} {
		s := newEmptyFixture().source()
		s.Items = func(_ context.Context, visit func(store.Item) error) error {
			return visit(itemAt(store.KeyIn("a", "b"), store.Item{"v": v}))
		}
		key := filepath.Join(t.TempDir(), "key")
		if _, err := transfer.CreateKey(key); err != nil {
			t.Fatal(err)
		}
		if _, err := transfer.Write(t.Context(), s, key, io.Discard); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: Write() = %v, want an error with UTF-8", name, err)
		}
	}
}

// TestSealedValuesOpenAfterTheMove checks that the target can open the
// sealed values of the source, and that it computes the same hashes.
func TestSealedValuesOpenAfterTheMove(t *testing.T) {
	fx, sourceKey := newEmptyFixture(), rootSource(root)
	sealed, err := seal.NewSealer(sourceKey).Seal(t.Context(), []byte("a secret"), "record/1")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := seal.NewHasher(sourceKey, "consumer-key").Hash(t.Context(), "gwa_1")
	if err != nil {
		t.Fatal(err)
	}
	fx.put(t, itemAt(store.KeyPrefix("credential").Key(hash),
		store.Item{"sealed": &types.AttributeValueMemberB{Value: sealed}}))
	file, key := export(t, fx.source())
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := transfer.ImportDirectory(t.Context(), file, key, dir); err != nil {
		t.Fatal(err)
	}
	d := openDirectory(t, dir)
	targetKey := seal.ExistingFile(filepath.Join(dir, rootkey.Name))
	targetHash, err := seal.NewHasher(targetKey, "consumer-key").Hash(t.Context(), "gwa_1")
	if err != nil {
		t.Fatal(err)
	}
	table := store.New(d.engine, store.Options{Random: rand.Reader, Now: clock})
	var credential struct {
		Sealed []byte `dynamodbav:"sealed"`
	}
	if err := table.Get(t.Context(), store.KeyPrefix("credential").Key(targetHash), &credential); err != nil {
		t.Fatal(err)
	}
	if got, err := seal.NewSealer(targetKey).Open(t.Context(), credential.Sealed, "record/1"); err != nil ||
		string(got) != "a secret" {
		t.Errorf("Open() = %q, %v, want \"a secret\"", got, err)
	}
}

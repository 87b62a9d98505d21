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
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	"github.com/gatewright/gatewright/shared/store/memory"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

var now = time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC)

func clock() time.Time { return now }

// root is the root key of the installations of these tests.
var root = bytes.Repeat([]byte{7}, seal.KeyBytes)

type rootSource []byte

func (r rootSource) Root(context.Context) ([]byte, error) { return r, nil }

// itemsOf are the items of a table in memory.
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

func text(s string) store.Value { return &types.AttributeValueMemberS{Value: s} }

func itemAt(key store.Key, more store.Item) store.Item {
	item := key.Item()
	for name, v := range more {
		item[name] = v
	}
	return item
}

// world is an installation in memory.
type world struct {
	table   *memory.Backend
	objects *blob.Memory
}

// every is one item of each kind of value and of key.
func every() []store.Item {
	var out []store.Item
	for i, v := range []store.Value{
		text(""), text("a text <&> \u2028 ☃ \x00"), &types.AttributeValueMemberN{Value: "12345678901234567890.5"},
		&types.AttributeValueMemberB{Value: []byte{0, 255, 1}}, &types.AttributeValueMemberBOOL{Value: true}, &types.AttributeValueMemberNULL{Value: true},
		&types.AttributeValueMemberSS{Value: []string{"a", "b"}}, &types.AttributeValueMemberNS{Value: []string{"1", "2"}}, &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		&types.AttributeValueMemberM{Value: store.Item{"m": &types.AttributeValueMemberL{Value: []store.Value{text("x"), &types.AttributeValueMemberM{Value: store.Item{}}}}}},
		&types.AttributeValueMemberL{Value: []store.Value{}},
	} {
		out = append(out, itemAt(store.In(fmt.Sprintf("kinds#%d", i%3), fmt.Sprintf("%03d/%% #\x00☃", i)), store.Item{"value": v}))
	}
	return out
}

// made is an installation with all of it, and with what stays behind.
func made(t *testing.T) *world {
	t.Helper()
	w := &world{memory.New(), blob.NewMemory(clock)}
	for i := range 300 {
		w.put(t, itemAt(store.In("things", fmt.Sprintf("%04d", i)), store.Item{"n": &types.AttributeValueMemberN{Value: fmt.Sprint(i)}}))
	}
	w.put(t, every()...)
	for key, content := range map[string]string{"artifacts/a/1": "an artifact", "sources/a/2-ü": "a source", "uploads/st_1": "an upload", "truststores/x/y": ""} {
		if err := w.objects.Put(t.Context(), key, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) put(t *testing.T, items ...store.Item) {
	t.Helper()
	for _, item := range items {
		write := store.Write{Kind: store.PutKind, Key: store.KeyOf(item), Item: item}
		if err := w.table.Transact(t.Context(), rand.Text(), []store.Write{write}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) source() transfer.Source {
	return transfer.Source{Items: itemsOf(w.table), Objects: w.objects, Root: first(root), AccountKey: []byte("gwa_key\n"), Now: clock}
}

// export writes one with a key of its own.
func export(t *testing.T, s transfer.Source) (file, key string) {
	t.Helper()
	dir := t.TempDir()
	file, key = filepath.Join(dir, "file.data"), filepath.Join(dir, "file.key")
	if made, err := transfer.MakeKey(key); err != nil || !made {
		t.Fatalf("the key was made: %v, %v", made, err)
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

func first(key []byte) sharedrootkey.Moved { return sharedrootkey.Moved{Number: 1, Key: key} }

// keeper keeps a root key in memory, with a record in the table.
type keeper struct {
	root    []byte
	refuses error
}

func (k *keeper) Root(context.Context) (sharedrootkey.Moved, error) { return first(k.root), nil }

func (k *keeper) Adopt(_ context.Context, root sharedrootkey.Moved) ([]store.Write, error) {
	if k.refuses == nil {
		k.root = slices.Clone(root.Key)
	}
	return nil, k.refuses
}

// remote is a target over a backend.
func remote(t testing.TB, w *world, through store.Backend, k *keeper) transfer.Remote {
	t.Helper()
	return transfer.Remote{
		Name: "the table t", Table: storetest.Over(t, through), Items: itemsOf(w.table), Bucket: w.objects, Keeper: k, Now: clock,
		Turn: func(item store.Item) transfer.Turn {
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

func empty() *world { return &world{memory.New(), blob.NewMemory(clock)} }

// objectsOf are all objects with their contents.
func objectsOf(t *testing.T, o transfer.Objects, etags bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	for found, err := range o.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := o.Get(t.Context(), found.Key, found.ETag, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil || body.Close() != nil {
			t.Fatal(err)
		}
		out[found.Key] = string(content)
		if etags {
			out[found.Key] += found.ETag + found.Modified.String()
		}
	}
	return out
}

// directory is an imported data directory, opened.
type directory struct {
	engine  *embedded.Backend
	objects *files.Bucket
}

func opened(t *testing.T, dir string) directory {
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
		t.Errorf("its root key is another (%v)", err)
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
	cmpopts.IgnoreUnexported(types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{},
		types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{}, types.AttributeValueMemberM{}, types.AttributeValueMemberL{}),
	cmpopts.EquateEmpty(),
}

// TestEverythingMovesThereAndBack goes out of a DynamoDB into a data directory, out of that into
// another DynamoDB, and has the same each time: items, objects, root key and account key.
func TestEverythingMovesThereAndBack(t *testing.T) {
	w := made(t)
	for i, v := range []store.Value{text(strings.Repeat("<", 399_000)), &types.AttributeValueMemberB{Value: make([]byte, 399_000)}, text(strings.Repeat("☃", 133_000))} {
		w.put(t, itemAt(store.In("large", fmt.Sprint(i)), store.Item{"value": v}))
	}
	file, key := export(t, w.source())
	dir := filepath.Join(t.TempDir(), "data")
	sum, err := transfer.ImportDirectory(t.Context(), file, key, dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := (transfer.Summary{MadeOn: now, Items: len(w.table.Items()), Objects: 4, Bytes: 28}); sum != want {
		t.Errorf("it tells of %+v, want %+v", sum, want)
	}
	if got, err := os.ReadFile(filepath.Join(dir, datadir.AccountKey)); err != nil || string(got) != "gwa_key\n" {
		t.Errorf("the account key is %q (%v)", got, err)
	}
	d := opened(t, dir)
	if diff := cmp.Diff(w.table.Items(), d.items(t), sameItems); diff != "" {
		t.Errorf("in the directory: %s", diff)
	}
	if diff := cmp.Diff(objectsOf(t, w.objects, true), objectsOf(t, d.objects, true)); diff != "" {
		t.Errorf("in the directory: %s", diff)
	}

	file, key = export(t, transfer.Source{Items: d.engine.EachItem, Objects: d.objects, Root: first(root), Now: clock})
	back, k := empty(), &keeper{}
	if _, err := transfer.Import(t.Context(), file, key, remote(t, back, back.table, k)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.table.Items(), back.table.Items(), sameItems); diff != "" {
		t.Errorf("in the table: %s", diff)
	}
	if diff := cmp.Diff(objectsOf(t, w.objects, false), objectsOf(t, back.objects, false)); diff != "" {
		t.Errorf("in the bucket: %s", diff)
	}
	if !bytes.Equal(k.root, root) {
		t.Error("the root key is another")
	}
}

// TestExportIsRefusedWhereARotationHasBegunMeanwhile: the root key was read before it, and the items after.
func TestExportIsRefusedWhereARotationHasBegunMeanwhile(t *testing.T) {
	for name, of := range map[string]store.Item{
		"begun":         {"rotation": &types.AttributeValueMemberM{Value: store.Item{"operation": text("root-key-rotation-2"), "beganOn": text("2026-11-26T05:00:00Z")}}},
		"with both":     {"other": &types.AttributeValueMemberM{Value: store.Item{"wrapped": &types.AttributeValueMemberB{Value: []byte{1}}, "createdOn": text("2026-11-26T05:00:00Z")}}},
		"of a new form": {"wrapped": text("no bytes")},
	} {
		t.Run(name, func(t *testing.T) {
			w := made(t)
			_, key := export(t, w.source()) // without it, for the key
			w.put(t, itemAt(store.Space("root-key").Key(), of))
			_, err := transfer.Write(t.Context(), w.source(), key, io.Discard)
			if err == nil || name != "of a new form" && !errors.Is(err, sharedrootkey.ErrTurning) {
				t.Errorf("it is answered %v, want %v", err, sharedrootkey.ErrTurning)
			}
		})
	}
}

// TestNoSecretIsInTheFile: nothing of the root key, of an item or of an object can be read in it.
func TestNoSecretIsInTheFile(t *testing.T) {
	w := made(t)
	file, key := export(t, w.source())
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	private, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Fields(private)
	for name, secret := range map[string][]byte{
		"the root key": root, "the account key": []byte("gwa_key"), "an item": []byte("things"), "an object": []byte("an artifact"), "the file's own key": lines[len(lines)-1],
	} {
		if bytes.Contains(raw, secret) {
			t.Errorf("%s can be read", name)
		}
	}
}

// TestWhatIsOfAPlaceStays: what processes note for themselves, what has expired, and how another
// place kept its root key.
func TestWhatIsOfAPlaceStays(t *testing.T) {
	w := made(t)
	before := w.table.Items()
	number := func(n int64) store.Value { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
	w.put(t,
		itemAt(store.Space("commit-token").Key("p", "1"), store.Item{"ttl": number(now.Unix() + 100)}),
		itemAt(store.Space("root-key").Key(), store.Item{"wrapped": &types.AttributeValueMemberB{Value: []byte("x")}}),
		itemAt(store.Space("answers").Key("old"), store.Item{"ttl": number(now.Unix())}))
	fresh := itemAt(store.Space("answers").Key("fresh"), store.Item{"ttl": number(now.Unix() + 1)})
	w.put(t, fresh)
	before[store.KeyOf(fresh)] = fresh
	file, key := export(t, w.source())
	to := empty()
	if _, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, &keeper{})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, to.table.Items(), sameItems); diff != "" {
		t.Error(diff)
	}
}

// TestChangingSourceIsRefused: of a table that is read page by page there is no export of two moments.
func TestChangingSourceIsRefused(t *testing.T) {
	changes := map[string]func(w *world){
		"an item more":      func(w *world) { w.put(t, itemAt(store.In("new", "1"), nil)) },
		"an item changed":   func(w *world) { w.put(t, itemAt(store.In("things", "0000"), store.Item{"n": text("other")})) },
		"an object more":    func(w *world) { w.objects.Upload("uploads/new", []byte("x")) },
		"an object changed": func(w *world) { w.objects.Upload("uploads/st_1", []byte("other")) },
		"an object less":    func(w *world) { _ = w.objects.Delete(t.Context(), "uploads/st_1") },
		"nothing":           nil,
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := made(t)
			s := w.source()
			s.Moving = true
			scans := 0
			s.Items = func(ctx context.Context, visit func(store.Item) error) error {
				if scans++; scans == 2 && change != nil {
					change(w)
				}
				return itemsOf(w.table)(ctx, visit)
			}
			key := filepath.Join(t.TempDir(), "key")
			if _, err := transfer.MakeKey(key); err != nil {
				t.Fatal(err)
			}
			if _, err := transfer.Write(t.Context(), s, key, io.Discard); errors.Is(err, transfer.ErrChanging) != (change != nil) || scans != 2 {
				t.Errorf("after %d scans it is answered with %v", scans, err)
			}
		})
	}
}

// TestTextThatJSONHasNoFormForIsRefused, and not changed on its way.
func TestTextThatJSONHasNoFormForIsRefused(t *testing.T) {
	for name, v := range map[string]store.Value{
		"text": text("\xff"), "set": &types.AttributeValueMemberSS{Value: []string{"\xff"}},
		"list": &types.AttributeValueMemberL{Value: []store.Value{text("\xff")}}, "name": &types.AttributeValueMemberM{Value: store.Item{"\xff": text("")}},
	} {
		s := empty().source()
		s.Items = func(_ context.Context, visit func(store.Item) error) error {
			return visit(itemAt(store.In("a", "b"), store.Item{"v": v}))
		}
		key := filepath.Join(t.TempDir(), "key")
		if _, err := transfer.MakeKey(key); err != nil {
			t.Fatal(err)
		}
		if _, err := transfer.Write(t.Context(), s, key, io.Discard); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: answered with %v", name, err)
		}
	}
}

// TestSealedValuesOpenAfterTheMove: what was sealed and hashed there is opened and known here.
func TestSealedValuesOpenAfterTheMove(t *testing.T) {
	w, before := empty(), rootSource(root)
	sealed, err := seal.NewSealer(before).Seal(t.Context(), []byte("a secret"), "record/1")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := seal.NewHasher(before, "consumer-key").Hash(t.Context(), "gwa_1")
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, itemAt(store.Space("credential").Key(hash), store.Item{"sealed": &types.AttributeValueMemberB{Value: sealed}}))
	file, key := export(t, w.source())
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := transfer.ImportDirectory(t.Context(), file, key, dir); err != nil {
		t.Fatal(err)
	}
	d := opened(t, dir)
	after := seal.ExistingFile(filepath.Join(dir, rootkey.Name))
	known, err := seal.NewHasher(after, "consumer-key").Hash(t.Context(), "gwa_1")
	if err != nil {
		t.Fatal(err)
	}
	table := store.New(d.engine, store.Options{Random: rand.Reader, Now: clock})
	var found struct {
		Sealed []byte `dynamodbav:"sealed"`
	}
	if err := table.Get(t.Context(), store.Space("credential").Key(known), &found); err != nil {
		t.Fatal(err)
	}
	if got, err := seal.NewSealer(after).Open(t.Context(), found.Sealed, "record/1"); err != nil || string(got) != "a secret" {
		t.Errorf("it opens as %q (%v)", got, err)
	}
}

package takeover_test

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// earlier is the data of an earlier version, and what it answered.
type earlier struct {
	dir     string // of the product that was stopped
	copied  string // of a copy that was made while it ran: as after a kill, and without attributes
	items   map[store.Key]store.Item
	due     []store.Item
	objects map[blob.Object]string
}

// exported compares the values of items, which have no exported way to be.
var exported = cmp.Exporter(func(reflect.Type) bool { return true })

const duePartition = "due#1"

// makeEarlier has the real emulators make it.
func makeEarlier(t *testing.T) *earlier {
	t.Helper()
	binary, err := emulator.FindDynoxide(os.Getenv)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	e := &earlier{dir: filepath.Join(t.TempDir(), "old"), items: map[store.Key]store.Item{}, objects: map[blob.Object]string{}}
	dir, err := datadir.Open(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.OpenFile(dir.Path("root.key")).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := dir.Write("account-key", []byte("gw_demo\n")); err != nil {
		t.Fatal(err)
	}
	e.makeItems(t, dir, binary)
	e.makeObjects(t, dir)
	lock.Release()
	return e
}

func (e *earlier) makeItems(t *testing.T, dir *datadir.Dir, binary string) {
	t.Helper()
	running, err := emulator.StartDynamoDB(t.Context(), dir, binary, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	client := store.Connect(sdk("local", "local"), running.Endpoint)
	if err := store.CreateTable(t.Context(), client, "gatewright"); err != nil {
		t.Fatal(err)
	}
	backend := store.NewDynamoDB(client, "gatewright")
	table := store.New(backend, store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true})
	for _, w := range writes() {
		if err := table.Commit(t.Context(), w...); err != nil {
			t.Fatal(err)
		}
	}
	pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: aws.String("gatewright")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			e.items[store.KeyOf(item)] = item
		}
	}
	for range 3 { // on a busy machine the emulator breaks an answer off
		if e.due, _, err = backend.Query(t.Context(), store.Query{Index: store.DueIndex, PK: duePartition}); err == nil {
			break
		}
	}
	if err != nil || len(e.due) == 0 {
		t.Fatalf("%d items are due (%v)", len(e.due), err)
	}
	e.copied = filepath.Join(t.TempDir(), "copied")
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", e.dir, e.copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// writes are commits of all that an item can hold, deletions and changes among them.
func writes() (all [][]store.Write) {
	key := func(n int) store.Key { return store.Key{PK: fmt.Sprintf("p#%d", n%7), SK: fmt.Sprintf("s#%04d", n)} }
	const items = 400
	for n := range items {
		value := map[string]any{
			"n": n, "negative": -n, "decimal": 1.5, "tiny": 1e-100, "large": uint64(1) << 63,
			"text": "é\u0000\"\\ \U0001F600 <&>\u2028", "empty": "", "bytes": []byte{0, 255, byte(n)}, "none": nil, "yes": true,
			"list": []any{"a", 1, nil, []any{}, map[string]any{"deep": []byte("x")}}, "map": map[string]any{" ": "of a blank name", "x.y": 1},
			"filler": strings.Repeat("f", n*20),
		}
		if n%5 == 0 {
			value["ttl"] = time.Now().Add(time.Hour).Unix()
		}
		if n%4 == 0 {
			value["duePk"], value["dueSk"] = duePartition, fmt.Sprintf("2026#%04d", items-n)
		}
		all = append(all, []store.Write{store.Put(key(n), value)})
	}
	return append(all,
		[]store.Write{store.Delete(key(1)), store.Upsert(key(2), store.Add(store.At("n"), 40))},
		[]store.Write{store.Put(store.Key{PK: "sets", SK: "."}, struct {
			Texts   []string `dynamodbav:"texts,stringset"`
			Numbers []int    `dynamodbav:"numbers,numberset"`
			Bytes   [][]byte `dynamodbav:"bytes,binaryset"`
		}{[]string{"b", "a"}, []int{3, -1}, [][]byte{{1}, {0}}})},
		[]store.Write{store.Put(store.Key{PK: "large", SK: "."}, map[string]any{"x": strings.Repeat("x", 390<<10)})},
		[]store.Write{operation.Begin(operation.Start{ID: "op-1", Kind: "build", Subject: "x", AccountID: "a", Input: 1}, time.Now())},
	)
}

func (e *earlier) makeObjects(t *testing.T, dir *datadir.Dir) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	running, err := emulator.StartS3(t.Context(), emulator.S3Options{
		Dir: dir, Self: self, Credentials: c, Created: func(events.S3Event) {}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	bucket := blob.New(sdk(c.AccessKeyID, c.SecretAccessKey), blob.Options{Name: "gatewright", Endpoint: running.Endpoint})
	if err := bucket.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{
		blob.UploadKey("0001"): strings.Repeat("an archive that no build has begun ", 100_000),
		blob.SourceKey("dpl_1/" + strings.Repeat("ab", 32) + "-01"): "the same",
		blob.SourceKey("dpl_2/" + strings.Repeat("ab", 32) + "-02"): "the same",
		blob.ArtifactKey("dpl_1/" + strings.Repeat("cd", 32)):       "",
		"uploads/a b+c%2F~é": "an odd name",
	}
	for key, content := range contents {
		if key == blob.UploadKey("0001") {
			upload(t, bucket, key, content)
		} else if err := bucket.Put(t.Context(), key, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	for o, err := range bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		e.objects[o] = contents[o.Key]
	}
	if len(e.objects) != len(contents) {
		t.Fatalf("S3 lists %d objects of %d", len(e.objects), len(contents))
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", "--preserve=mode,timestamps", filepath.Join(e.dir, "s3"), e.copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// upload sends an object as a client does, by a signed URL.
func upload(t *testing.T, bucket *blob.Bucket, key, content string) {
	t.Helper()
	address, err := bucket.PresignPut(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
}

func sdk(id, secret string) aws.Config {
	return aws.Config{Region: emulator.Region, Credentials: credentials.NewStaticCredentialsProvider(id, secret, "")}
}

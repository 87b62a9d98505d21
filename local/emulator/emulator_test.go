//go:build unix

package emulator_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/emulator/process"
)

// TestMain lets this test binary be the emulators' program.
func TestMain(m *testing.M) {
	if process.Is(os.Args[1:]) {
		os.Exit(process.Main(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program returns the path of the emulators' program, which is this test binary.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func openDir(t *testing.T) *datadir.Dir {
	t.Helper()
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// dynoxide finds the binary; CI has it, a developer may lack it.
func dynoxide(t *testing.T) string {
	t.Helper()
	path, err := emulator.FindDynoxide(os.Getenv)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// repeat makes a call until it succeeds, as clients of a server do that is
// being started again.
func repeat(t *testing.T, call func() error) {
	t.Helper()
	for {
		err := call()
		if err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("never: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestDynamoDBKeepsWhatItAcknowledgedOverAKill(t *testing.T) {
	t.Parallel()
	e, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{Dir: openDir(t), Binary: dynoxide(t), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	client := emulator.DynamoDBClient(e.Endpoint)
	table := aws.String("table")
	_, err = client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            table,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	item := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: item}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(e.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var got *dynamodb.GetItemOutput
	repeat(t, func() (err error) {
		got, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: item})
		return err
	})
	if len(got.Item) == 0 {
		t.Error("the item is gone")
	}
}

// TestStreamsAreIndexedAtTheStart checks the database after the start: without the
// indexes, writes become slower with each record of the streams.
func TestStreamsAreIndexedAtTheStart(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	e, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{Dir: dir, Binary: dynoxide(t), Program: program(t), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	e.Stop()
	db, err := sql.Open("sqlite", "file:"+dir.Path("dynamodb", "table.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var indexes int
	err = db.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name IN ('gatewright_stream', 'gatewright_shard')`).Scan(&indexes)
	if err != nil || indexes != 2 {
		t.Errorf("indexes of the streams = %d, %v, want 2", indexes, err)
	}
}

// TestProgramThatCannotIndexEndsTheStart checks that the error of the program is reported
// in one line, and that no DynamoDB is left behind.
func TestProgramThatCannotIndexEndsTheStart(t *testing.T) {
	t.Parallel()
	failing := filepath.Join(t.TempDir(), "failing.sh")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\necho error: no index >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	_, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{Dir: dir, Binary: dynoxide(t), Program: failing, Log: quiet()})
	if err == nil || err.Error() != "index the streams of DynamoDB: exit status 1: error: no index" {
		t.Errorf("StartDynamoDB(failing program) error = %v, want that of the program", err)
	}
	port, err := dir.Read("dynamodb.port")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strings.TrimSpace(string(port)))
	if err != nil {
		t.Fatalf("DynamoDB still listens after the failed start: %v", err)
	}
	_ = l.Close()
}

func startS3(t *testing.T, dir *datadir.Dir, created func(events.S3Event)) (*emulator.Emulator, *s3.Client, emulator.Credentials) {
	t.Helper()
	credentials, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := emulator.StartS3(t.Context(), emulator.S3Options{
		Dir: dir, Program: program(t), Credentials: credentials, Created: created, Log: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e, emulator.S3Client(e.Endpoint, credentials), credentials
}

func TestPresignedUploadIsStoredAndTold(t *testing.T) {
	t.Parallel()
	told := make(chan events.S3Event, 1)
	_, client, _ := startS3(t, openDir(t), func(e events.S3Event) { told <- e })
	bucket, key := aws.String("gatewright"), aws.String("uploads/a b+c")
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	presigned, err := s3.NewPresignClient(client).PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	// Large enough to be streamed, and sent as curl -T does: no content type.
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, presigned.URL, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("upload: %s %s", response.Status, text)
	}
	event := <-told
	if len(event.Records) != 1 {
		t.Fatalf("%d records", len(event.Records))
	}
	object := event.Records[0].S3.Object
	if object.URLDecodedKey != *key || object.Size != int64(len(content)) {
		t.Errorf("told of %q with %d bytes", object.URLDecodedKey, object.Size)
	}
	out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: key, IfMatch: aws.String(object.ETag)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out.Body)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

func TestBucketStaysOursWithNewCredentials(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	bucket := aws.String("gatewright")
	e, client, _ := startS3(t, dir, func(events.S3Event) {})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	e.Stop()
	if err := dir.Write("s3-credentials.json", nil); err != nil {
		t.Fatal(err)
	}
	_, client, _ = startS3(t, dir, func(events.S3Event) {})
	if _, err := client.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: bucket}); err != nil {
		t.Error(err)
	}
}

func TestS3KeepsObjectsOverAKillAndGoesOnTelling(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	e, client, _ := startS3(t, openDir(t), func(e events.S3Event) { told <- e.Records[0].S3.Object.Key })
	bucket := aws.String("gatewright")
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	put := func(key string) error {
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader(key)})
		return err
	}
	if err := put("first"); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != "first" {
		t.Errorf("told of %s", got)
	}
	if err := syscall.Kill(e.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	repeat(t, func() error { return put("second") })
	if got := <-told; got != "second" {
		t.Errorf("told of %s", got)
	}
	if _, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("first")}); err != nil {
		t.Errorf("the first object: %v", err)
	}
}

func TestSecretsOfTheS3ServerAreNoArgumentsAndNoVariables(t *testing.T) {
	t.Parallel()
	e, _, credentials := startS3(t, openDir(t), func(events.S3Event) {})
	for _, name := range []string{"cmdline", "environ"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", e.PID(), name))
		if err != nil {
			t.Fatal(err)
		}
		if len(content) == 0 || bytes.Contains(content, []byte(credentials.SecretAccessKey)) {
			t.Errorf("%s is empty or shows the secret", name)
		}
	}
}

func TestCredentialsStayAndUnreadableOnesAreReplaced(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := emulator.LoadCredentials(dir); err != nil || again != first {
		t.Errorf("second load: %v, %v", again == first, err)
	}
	if err := dir.Write("s3-credentials.json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if other, err := emulator.LoadCredentials(dir); err != nil || other == first || other.SecretAccessKey == "" {
		t.Errorf("after corruption: %v, %v", other != first, err)
	}
}

func TestDynoxideIsLookedForInOrder(t *testing.T) {
	dir := t.TempDir()
	place := func(elem ...string) string {
		path := filepath.Join(append([]string{dir}, elem...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	work := filepath.Join(dir, "checkout", "below")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	var named string
	getenv := func(string) string { return named }

	if _, err := emulator.FindDynoxide(getenv); !errors.Is(err, emulator.ErrNoDynoxide) {
		t.Fatalf("nowhere: %v", err)
	}
	want := place("checkout", "local", "node_modules", "@dynoxide", "linux-x64", "dynoxide")
	if got, err := emulator.FindDynoxide(getenv); err != nil || got != want {
		t.Errorf("npm's: %s, %v", got, err)
	}
	want = place("bin", "dynoxide")
	if got, err := emulator.FindDynoxide(getenv); err != nil || got != want {
		t.Errorf("on the PATH: %s, %v", got, err)
	}
	named = place("elsewhere")
	if got, err := emulator.FindDynoxide(getenv); err != nil || got != named {
		t.Errorf("named: %s, %v", got, err)
	}
	named = filepath.Join(dir, "absent")
	if _, err := emulator.FindDynoxide(getenv); err == nil || !strings.Contains(err.Error(), "GATEWRIGHT_DYNOXIDE") {
		t.Errorf("named but absent: %v", err)
	}
}

func TestBrokenDatabaseIsReportedInOneLine(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	if _, err := dir.Sub("dynamodb"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Path("dynamodb", "table.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{Dir: dir, Binary: dynoxide(t), Log: quiet()})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "DynamoDB ended at once") {
		t.Errorf("got %v", err)
	}
}

func TestEmulatorComesBackOnItsPortUnlessAnotherTookIt(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	binary := dynoxide(t)
	endpoint := func() string {
		e, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{Dir: dir, Binary: binary, Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Stop()
		return e.Endpoint
	}
	first := endpoint()
	if second := endpoint(); second != first {
		t.Errorf("the second start is at %s, the first was at %s", second, first)
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(first, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if third := endpoint(); third == first {
		t.Error("the third start is at a port that is taken")
	}
}

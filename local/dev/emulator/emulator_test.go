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
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/dev/emulator/process"
)

// TestMain runs the emulators' program instead of the tests if the arguments are a command of the program.
func TestMain(m *testing.M) {
	if process.IsCommand(os.Args[1:]) {
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

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// dynoxide returns the path of the dynoxide binary. If it is missing, the test fails in CI and is skipped elsewhere.
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

// retry repeats call until it succeeds, as clients do while a server restarts.
func retry(t *testing.T, call func() error) {
	t.Helper()
	for {
		err := call()
		if err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the last attempt before the deadline fails: %v, want success", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestDynamoDBKeepsAcknowledgedItemsAfterAKill(t *testing.T) {
	t.Parallel()
	e, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{
		Dir: openDir(t), Binary: dynoxide(t),
		Log: discardLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	client := emulator.DynamoDBClient(e.Endpoint)
	table := aws.String("table")
	_, err = client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:   table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{
			AttributeName: aws.String("pk"),
			AttributeType: types.ScalarAttributeTypeS,
		}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
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
	retry(t, func() (err error) {
		got, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: item})
		return err
	})
	if len(got.Item) == 0 {
		t.Error("GetItem() after a kill returns no item, want the acknowledged one")
	}
}

// TestStreamsAreIndexedAtTheStart checks that the database has the indexes
// after the start. Without them, each stream record makes later writes slower.
func TestStreamsAreIndexedAtTheStart(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	e, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{
		Dir: dir, Binary: dynoxide(t),
		Program: program(t), Log: discardLogger(),
	})
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
	err = db.QueryRowContext(t.Context(),
		`SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name IN ('gatewright_stream', 'gatewright_shard')`).Scan(
		&indexes)
	if err != nil || indexes != 2 {
		t.Errorf("indexes of the streams = %d, %v, want 2", indexes, err)
	}
}

// TestProgramThatCannotIndexEndsTheStart checks that the start fails with the program's error
// in one line if the streams cannot be indexed, and that the emulator does not continue to run.
func TestProgramThatCannotIndexEndsTheStart(t *testing.T) {
	t.Parallel()
	failing := filepath.Join(t.TempDir(), "failing.sh")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\necho error: no index >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	_, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{
		Dir: dir, Binary: dynoxide(t), Program: failing,
		Log: discardLogger(),
	})
	const want = "index the streams of DynamoDB: exit status 1: error: no index"
	if err == nil || err.Error() != want {
		t.Errorf("StartDynamoDB(failing program) error = %v, want %s", err, want)
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

func startS3(
	t *testing.T, dir *datadir.Dir, created func(events.S3Event),
) (*emulator.Emulator, *s3.Client, emulator.Credentials) {
	t.Helper()
	credentials, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := emulator.StartS3(t.Context(), emulator.S3Options{
		Dir: dir, Program: program(t), Credentials: credentials, Created: created, Log: discardLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e, emulator.S3Client(e.Endpoint, credentials), credentials
}

func TestPresignedUploadIsStoredAndNotified(t *testing.T) {
	t.Parallel()
	received := make(chan events.S3Event, 1)
	_, client, _ := startS3(t, openDir(t), func(e events.S3Event) { received <- e })
	bucket, key := aws.String("gatewright"), aws.String("uploads/a b+c")
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	presigned, err := s3.NewPresignClient(client).PresignPutObject(t.Context(), &s3.PutObjectInput{
		Bucket: bucket,
		Key:    key,
	})
	if err != nil {
		t.Fatal(err)
	}
	// The object is large enough to be streamed. It is sent without a content type, as by curl -T.
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
		t.Fatalf("status of the upload = %s, want 200: %s", response.Status, text)
	}
	event := <-received
	if len(event.Records) != 1 {
		t.Fatalf("the event has %d records, want 1", len(event.Records))
	}
	object := event.Records[0].S3.Object
	if object.URLDecodedKey != *key || object.Size != int64(len(content)) {
		t.Errorf("event for %q with %d bytes, want %q with %d", object.URLDecodedKey, object.Size, *key, len(content))
	}
	out, err := client.GetObject(t.Context(), &s3.GetObjectInput{
		Bucket: bucket, Key: key,
		IfMatch: aws.String(object.ETag),
	})
	if err != nil {
		t.Fatalf("GetObject(If-Match with the event's ETag) = %v, want no error", err)
	}
	got, err := io.ReadAll(out.Body)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("the object has %d bytes, %v, want the %d that were uploaded", len(got), err, len(content))
	}
}

func TestBucketIsAccessibleWithNewCredentials(t *testing.T) {
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
		t.Errorf("HeadBucket() with new credentials = %v, want no error", err)
	}
}

func TestS3KeepsObjectsAndNotifiesAfterAKill(t *testing.T) {
	t.Parallel()
	received := make(chan string, 10)
	e, client, _ := startS3(t, openDir(t), func(e events.S3Event) { received <- e.Records[0].S3.Object.Key })
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
	if got := <-received; got != "first" {
		t.Errorf("event for %s, want first", got)
	}
	if err := syscall.Kill(e.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	retry(t, func() error { return put("second") })
	if got := <-received; got != "second" {
		t.Errorf("event for %s after a kill, want second", got)
	}
	if _, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{
		Bucket: bucket,
		Key:    aws.String("first"),
	}); err != nil {
		t.Errorf("HeadObject(first) error = %v, want none", err)
	}
}

func TestS3SecretsAreNotInArgumentsOrEnvironment(t *testing.T) {
	t.Parallel()
	e, _, credentials := startS3(t, openDir(t), func(events.S3Event) {})
	for _, name := range []string{"cmdline", "environ"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", e.PID(), name))
		if err != nil {
			t.Fatal(err)
		}
		if len(content) == 0 || bytes.Contains(content, []byte(credentials.SecretAccessKey)) {
			t.Errorf("%s has %d bytes, contains the secret: %v, want more than 0 bytes and no secret", name, len(content),
				bytes.Contains(content, []byte(credentials.SecretAccessKey)))
		}
	}
}

func TestCredentialsAreKeptAndUnreadableOnesReplaced(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := emulator.LoadCredentials(dir); err != nil || second != first {
		t.Errorf("second LoadCredentials(): equal to the first: %v, %v, want true and no error", second == first, err)
	}
	if err := dir.Write("s3-credentials.json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if other, err := emulator.LoadCredentials(dir); err != nil || other == first || other.SecretAccessKey == "" {
		t.Errorf("LoadCredentials(corrupt): equal to the first: %v, %v, want others and no error", other == first, err)
	}
}

func TestFindDynoxideSearchOrder(t *testing.T) {
	dir := t.TempDir()
	writeExecutable := func(elem ...string) string {
		path := filepath.Join(append([]string{dir}, elem...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	workDir := filepath.Join(dir, "checkout", "below")
	if err := os.MkdirAll(workDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(workDir)
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	var dynoxidePath string
	getenv := func(string) string { return dynoxidePath }

	if _, err := emulator.FindDynoxide(getenv); !errors.Is(err, emulator.ErrNoDynoxide) {
		t.Fatalf("FindDynoxide(nowhere) = %v, want %v", err, emulator.ErrNoDynoxide)
	}
	want := writeExecutable("checkout", "local", "dev", "node_modules", "@dynoxide", "linux-x64", "dynoxide")
	if got, err := emulator.FindDynoxide(getenv); err != nil || got != want {
		t.Errorf("FindDynoxide(npm) = %s, %v, want %s", got, err, want)
	}
	want = writeExecutable("bin", "dynoxide")
	if got, err := emulator.FindDynoxide(getenv); err != nil || got != want {
		t.Errorf("FindDynoxide(PATH) = %s, %v, want %s", got, err, want)
	}
	dynoxidePath = writeExecutable("elsewhere")
	if got, err := emulator.FindDynoxide(getenv); err != nil || got != dynoxidePath {
		t.Errorf("FindDynoxide(GATEWRIGHT_DYNOXIDE) = %s, %v, want %s", got, err, dynoxidePath)
	}
	dynoxidePath = filepath.Join(dir, "absent")
	if _, err := emulator.FindDynoxide(getenv); err == nil || !strings.Contains(err.Error(), "GATEWRIGHT_DYNOXIDE") {
		t.Errorf("FindDynoxide(absent file) = %v, want an error with GATEWRIGHT_DYNOXIDE", err)
	}
}

func TestBrokenDatabaseIsReportedInOneLine(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	if _, err := dir.CreateFolder("dynamodb"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Path("dynamodb", "table.db"), []byte(strings.Repeat("no database ", 1000)),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{
		Dir: dir, Binary: dynoxide(t),
		Log: discardLogger(),
	})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "DynamoDB ended at once") {
		t.Errorf("StartDynamoDB(broken database) = %v, want one line with \"DynamoDB ended at once\"", err)
	}
}

func TestEmulatorReusesItsPortIfFree(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	binary := dynoxide(t)
	endpoint := func() string {
		e, err := emulator.StartDynamoDB(t.Context(), emulator.DynamoDBOptions{
			Dir: dir, Binary: binary,
			Log: discardLogger(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Stop()
		return e.Endpoint
	}
	first := endpoint()
	if second := endpoint(); second != first {
		t.Errorf("endpoint of the second start = %s, want %s as the first", second, first)
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(first, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if third := endpoint(); third == first {
		t.Errorf("endpoint of the third start = %s, want another port, since this one is in use", third)
	}
}

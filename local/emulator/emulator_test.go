//go:build unix

package emulator_test

import (
	"bytes"
	"context"
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
)

// TestMain lets this test binary be the S3 server, as the product's is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == emulator.S3ServerCommand {
		if err := emulator.ServeS3(context.Background(), os.Stdin, os.NewFile(3, "notes")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
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
	e, err := emulator.StartDynamoDB(t.Context(), openDir(t), dynoxide(t), quiet())
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

func startS3(t *testing.T, dir *datadir.Dir, created func(events.S3Event)) (*emulator.Emulator, *s3.Client, emulator.Credentials) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := emulator.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := emulator.StartS3(t.Context(), emulator.S3Options{
		Dir: dir, Self: self, Credentials: credentials, Created: created, Log: quiet(),
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
	_, err := emulator.StartDynamoDB(t.Context(), dir, dynoxide(t), quiet())
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "DynamoDB ended at once") {
		t.Errorf("got %v", err)
	}
}

func TestEmulatorComesBackOnItsPortUnlessAnotherTookIt(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	binary := dynoxide(t)
	endpoint := func() string {
		e, err := emulator.StartDynamoDB(t.Context(), dir, binary, quiet())
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

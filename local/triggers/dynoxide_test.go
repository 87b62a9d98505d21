//go:build unix

package triggers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// startDynamoDB starts the DynamoDB emulator dynoxide with the product's table.
func startDynamoDB(t *testing.T) (*emulator.Emulator, *dynamodb.Client, *triggers.TableStream) {
	t.Helper()
	binary, err := emulator.FindDynoxide(os.Getenv)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := emulator.DynamoDBOptions{Dir: dir, Binary: binary, Log: slog.New(slog.DiscardHandler)}
	e, err := emulator.StartDynamoDB(t.Context(), o)
	for range 2 { // another process may have taken the free port
		if err != nil {
			e, err = emulator.StartDynamoDB(t.Context(), o)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	config := aws.Config{Region: emulator.Region, Credentials: credentials.NewStaticCredentialsProvider("local", "local",
		"")}
	client := dynamodb.NewFromConfig(config, func(o *dynamodb.Options) { o.BaseEndpoint = &e.Endpoint })
	if err := store.CreateTable(t.Context(), client, "table"); err != nil {
		t.Fatal(err)
	}
	return e, client, triggers.NewTableStream(config, e.Endpoint, "table")
}

func put(t *testing.T, client *dynamodb.Client, item map[string]types.AttributeValue) {
	t.Helper()
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String("table"),
		Item:      item,
	}); err != nil {
		t.Fatal(err)
	}
}

func key(pk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: pk},
		"sk": &types.AttributeValueMemberS{Value: "."},
	}
}

// startRunner runs a Runner whose function sends the records that it receives to a channel.
func startRunner(
	t *testing.T, stream triggers.Stream, checkpoints triggers.Checkpoints, received chan<- events.DynamoDBEventRecord,
) (stop func()) {
	t.Helper()
	fx := &fixture{}
	r, err := triggers.New(triggers.Options{
		Functions: []triggers.Function{{
			Function: trigger.Function{Name: "operations", Events: []trigger.Event{{FromStream: true}}},
			Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
				var e events.DynamoDBEvent
				if err := json.Unmarshal(payload, &e); err != nil {
					return nil, err
				}
				for _, record := range e.Records {
					received <- record
				}
				return []byte(`{}`), nil
			}),
		}},
		Feed: triggers.NewStreamFeed(stream), Checkpoints: checkpoints, Objects: &fx.objects, IDs: idSource(t), Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestStreamOfARealTableResumesAfterAKill(t *testing.T) {
	t.Parallel()
	e, client, stream := startDynamoDB(t)
	checkpoints := triggers.NewFileCheckpoints(openDir(t), slog.New(slog.DiscardHandler))
	received := make(chan events.DynamoDBEventRecord, 1000)
	nextKey := func() string { return (<-received).Change.Keys["pk"].String() }

	stop := startRunner(t, stream, checkpoints, received)
	for i := range 150 {
		put(t, client, key(fmt.Sprint("a", i)))
	}
	for i := range 150 {
		if got, want := nextKey(), fmt.Sprint("a", i); got != want {
			t.Fatalf("key of record %d = %q, want %q", i, got, want)
		}
	}
	stop()
	// Write a record while no Runner reads the stream, and kill the database.
	put(t, client, key("b"))
	if err := syscall.Kill(e.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	defer startRunner(t, stream, checkpoints, received)()
	if got := nextKey(); got != "b" {
		t.Errorf("key of the first record after the kill = %q, want %q", got, "b")
	}
	put(t, client, key("c"))
	if got := nextKey(); got != "c" {
		t.Errorf("key of the next record = %q, want %q", got, "c")
	}
}

func TestRecordOfARealTableHasEveryKindOfAttribute(t *testing.T) {
	t.Parallel()
	_, client, stream := startDynamoDB(t)
	item := key("all kinds")
	item["number"] = &types.AttributeValueMemberN{Value: "1.5"}
	item["binary"] = &types.AttributeValueMemberB{Value: []byte{0, 255}}
	item["bool"] = &types.AttributeValueMemberBOOL{Value: true}
	item["null"] = &types.AttributeValueMemberNULL{Value: true}
	item["strings"] = &types.AttributeValueMemberSS{Value: []string{"a"}}
	item["numbers"] = &types.AttributeValueMemberNS{Value: []string{"1"}}
	item["binaries"] = &types.AttributeValueMemberBS{Value: [][]byte{{1}}}
	item["list"] = &types.AttributeValueMemberL{Value: []types.AttributeValue{
		&types.AttributeValueMemberN{Value: "2"},
		&types.AttributeValueMemberL{},
	}}
	item["map"] = &types.AttributeValueMemberM{
		Value: map[string]types.AttributeValue{"x": &types.AttributeValueMemberS{Value: ""}},
	}
	put(t, client, item)
	item["number"] = &types.AttributeValueMemberN{Value: "2.5"}
	put(t, client, item)

	received := make(chan events.DynamoDBEventRecord, 10)
	stop := startRunner(t, stream, &fakeCheckpoints{}, received)
	inserted, modified := <-received, <-received
	stop()
	for _, r := range []events.DynamoDBEventRecord{inserted, modified} {
		text, err := json.MarshalIndent(map[string]any{
			"name": r.EventName, "old": r.Change.OldImage, "new": r.Change.NewImage, "view": r.Change.StreamViewType,
			"source": r.EventSource,
		}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, filepath.Join("testdata", r.EventName+".json"), append(text, '\n'))
	}
	if got := inserted.Change.NewImage["number"].Number(); got != "1.5" {
		t.Errorf("number of the inserted item = %s, want 1.5", got)
	}
	first, _ := strconv.Atoi(inserted.Change.SequenceNumber)
	second, _ := strconv.Atoi(modified.Change.SequenceNumber)
	if first >= second {
		t.Errorf("sequence numbers = %d and %d, want the second greater", first, second)
	}
}

func TestCorruptCheckpointIsIgnored(t *testing.T) {
	dir := openDir(t)
	c := triggers.NewFileCheckpoints(dir, slog.New(slog.DiscardHandler))
	if got := c.Load("operations"); len(got) != 0 {
		t.Errorf("Load() without a file = %v, want none", got)
	}
	c.Save("operations", triggers.Position{"shard": "7"})
	if got := triggers.NewFileCheckpoints(dir, slog.New(slog.DiscardHandler)).Load("operations"); got["shard"] != "7" {
		t.Errorf("Load() after Save() = %v, want 7", got)
	}
	if err := dir.Write("stream-operations.json", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if got := c.Load("operations"); len(got) != 0 {
		t.Errorf("Load(corrupt file) = %v, want none", got)
	}
}

package triggers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// handler is a function that implements lambda.Handler.
type handler func(ctx context.Context, payload []byte) ([]byte, error)

func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return h(ctx, payload) }

// fixture has the options of a Runner.
type fixture struct {
	stream      fakeStream
	checkpoints fakeCheckpoints
	objects     fakeObjects
	// clockOffset is the difference between the wall clock and the clock of the synctest bubble.
	clockOffset atomic.Int64
}

func (f *fixture) clock() time.Time {
	return time.Now().Round(0).Add(time.Duration(f.clockOffset.Load()))
}

// start starts a Runner with functions, and returns it with a function that stops it.
func (f *fixture) start(t *testing.T, pollUploads bool, functions ...triggers.Function) (*triggers.Runner, func()) {
	t.Helper()
	r, err := triggers.New(triggers.Options{
		Functions: functions, Feed: triggers.NewStreamFeed(&f.stream), Checkpoints: &f.checkpoints, Objects: &f.objects,
		PollUploads: pollUploads,
		IDs:         idSource(t), Now: f.clock, Log: slog.New(slog.DiscardHandler),
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
	return r, func() {
		cancel()
		<-done
	}
}

// fakeStream is one shard with records 1, 2, …
type fakeStream struct {
	mu       sync.Mutex
	records  int
	failures int  // the number of reads that will fail
	trimmed  bool // whether the stream no longer has the record of a position
}

func (s *fakeStream) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records += n
}

func (s *fakeStream) ARN(context.Context) (string, error) { return "arn", nil }

func (s *fakeStream) DescribeStream(
	context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options),
) (*dynamodbstreams.DescribeStreamOutput, error) {
	return &dynamodbstreams.DescribeStreamOutput{
		StreamDescription: &types.StreamDescription{Shards: []types.Shard{{ShardId: new("shard")}}},
	}, nil
}

func (s *fakeStream) GetShardIterator(
	_ context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options),
) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if in.ShardIteratorType == types.ShardIteratorTypeTrimHorizon {
		return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: new("0")}, nil
	}
	if s.trimmed {
		return nil, &types.TrimmedDataAccessException{}
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: in.SequenceNumber}, nil
}

func (s *fakeStream) GetRecords(
	_ context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options),
) (*dynamodbstreams.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures > 0 {
		s.failures--
		return nil, errors.New("no answer")
	}
	next, _ := strconv.Atoi(*in.ShardIterator)
	out := &dynamodbstreams.GetRecordsOutput{}
	for range *in.Limit {
		if next == s.records {
			break
		}
		next++
		out.Records = append(out.Records, types.Record{
			EventName: types.OperationTypeInsert,
			Dynamodb: &types.StreamRecord{
				SequenceNumber: new(strconv.Itoa(next)),
				Keys: map[string]types.AttributeValue{
					"pk": &types.AttributeValueMemberS{Value: fmt.Sprint("item ", next)},
				},
			},
		})
	}
	out.NextShardIterator = new(strconv.Itoa(next))
	return out, nil
}

type fakeCheckpoints struct {
	position triggers.Position
	saves    int
}

func (c *fakeCheckpoints) Load(string) triggers.Position { return c.position }

func (c *fakeCheckpoints) Save(_ string, p triggers.Position) {
	c.position = triggers.Position{"shard": p["shard"]}
	c.saves++
}

// fakeObjects lists objects with the keys. The key "broken" makes the list fail.
type fakeObjects struct {
	mu   sync.Mutex
	keys []string
}

func (o *fakeObjects) set(keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = keys
}

func (o *fakeObjects) List(context.Context, string) iter.Seq2[blob.Object, error] {
	o.mu.Lock()
	keys := slices.Clone(o.keys)
	o.mu.Unlock()
	return func(yield func(blob.Object, error) bool) {
		for _, k := range keys {
			if k == "broken" {
				yield(blob.Object{}, errors.New("no answer"))
				return
			}
			if !yield(blob.Object{Key: k, ETag: "e", Size: 7}, nil) {
				return
			}
		}
	}
}

// streamFunction returns a function that the stream calls. It appends the sequence numbers
// of its records to received, and reports the failures that respond returns.
func streamFunction(
	received *[]string, respond func(call int, sequences []string) ([]string, error),
) triggers.Function {
	call := 0
	return triggers.Function{
		Function: trigger.Function{Name: "operations", Events: []trigger.Event{{FromStream: true}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			var e events.DynamoDBEvent
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			var sequences []string
			for _, r := range e.Records {
				sequences = append(sequences, r.Change.SequenceNumber)
			}
			*received = append(*received, sequences...)
			call++
			var resp events.DynamoDBEventResponse
			failed, err := respond(call, sequences)
			for _, s := range failed {
				resp.BatchItemFailures = append(resp.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: s})
			}
			if err != nil {
				return nil, err
			}
			return json.Marshal(resp)
		}),
	}
}

func succeedAll(int, []string) ([]string, error) { return nil, nil }

func numbers(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func TestStreamIsDeliveredOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{stream: fakeStream{records: 150}}
		var received []string
		_, stop := fx.start(t, false, streamFunction(&received, succeedAll))
		time.Sleep(5 * time.Second)
		fx.stream.add(3)
		time.Sleep(5 * time.Second)
		stop()
		if want := numbers(1, 153); !slices.Equal(received, want) {
			t.Errorf("received = %v, want %v", received, want)
		}
		if fx.checkpoints.position["shard"] != "153" {
			t.Errorf("checkpoint = %v, want 153", fx.checkpoints.position)
		}
	})
}

func TestStreamResumesFromTheCheckpoint(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trimmed bool
		want    []string
	}{
		{"checkpoint in the stream", false, numbers(3, 5)},
		{"checkpoint of a trimmed record", true, numbers(1, 5)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := &fixture{
					stream:      fakeStream{records: 5, trimmed: tc.trimmed},
					checkpoints: fakeCheckpoints{position: triggers.Position{"shard": "2"}},
				}
				var received []string
				_, stop := fx.start(t, false, streamFunction(&received, succeedAll))
				time.Sleep(5 * time.Second)
				stop()
				if !slices.Equal(received, tc.want) {
					t.Errorf("received = %v, want %v", received, tc.want)
				}
			})
		})
	}
}

func TestCheckpointsAreWrittenAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		var received []string
		_, stop := fx.start(t, false, streamFunction(&received, succeedAll))
		for range 100 {
			fx.stream.add(1)
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		if len(received) != 100 || fx.checkpoints.saves > 12 {
			t.Errorf("received records = %d, saves = %d in 10 s, want 100 and at most 12", len(received), fx.checkpoints.saves)
		}
	})
}

func TestRecordsAreRedeliveredFromTheFirstFailedOne(t *testing.T) {
	for name, tc := range map[string]struct {
		respond func(call int, sequences []string) ([]string, error)
		want    []string
	}{
		"failed records 3 and 4": {func(call int, _ []string) ([]string, error) {
			if call == 1 {
				return []string{"4", "3"}, nil
			}
			return nil, nil
		}, append(numbers(1, 5), numbers(3, 5)...)},
		"two failed calls": {func(call int, _ []string) ([]string, error) {
			if call < 3 {
				return nil, errors.New("no")
			}
			return nil, nil
		}, slices.Concat(numbers(1, 5), numbers(1, 5), numbers(1, 5))},
		"a panic": {func(call int, _ []string) ([]string, error) {
			if call == 1 {
				panic("no")
			}
			return nil, nil
		}, append(numbers(1, 5), numbers(1, 5)...)},
		"unknown record failed": {func(call int, _ []string) ([]string, error) {
			if call == 1 {
				return []string{"99"}, nil
			}
			return nil, nil
		}, append(numbers(1, 5), numbers(1, 5)...)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := &fixture{stream: fakeStream{records: 5, failures: 2}} // the first two reads of the stream fail
				var received []string
				_, stop := fx.start(t, false, streamFunction(&received, tc.respond))
				time.Sleep(time.Minute)
				stop()
				if !slices.Equal(received, tc.want) {
					t.Errorf("received = %v, want %v", received, tc.want)
				}
			})
		})
	}
}

func TestPoisonRecordDoesNotBlockTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{stream: fakeStream{records: 3}}
		var received []string
		_, stop := fx.start(t, false, streamFunction(&received, func(_ int, sequences []string) ([]string, error) {
			if slices.Contains(sequences, "2") {
				return []string{"2"}, nil
			}
			return nil, nil
		}))
		time.Sleep(time.Minute)
		fx.stream.add(1)
		time.Sleep(time.Minute)
		stop()
		if received[len(received)-1] != "4" {
			t.Errorf("received = %v, want 4 as the last record", received)
		}
	})
}

// uploadFunction returns a function that is called for uploads. It appends the keys of the uploaded objects to
// received, and returns the result for the number of the call.
func uploadFunction(received *[]string, result func(call int) error) triggers.Function {
	var mu sync.Mutex
	call := 0
	return triggers.Function{
		Function: trigger.Function{Name: "builder", Events: []trigger.Event{{ObjectCreated: "uploads/"}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			var e events.S3Event
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			for _, r := range e.Records {
				*received = append(*received, r.S3.Object.URLDecodedKey)
			}
			call++
			return nil, result(call)
		}),
	}
}

func succeed(int) error { return nil }

func event(keys ...string) (e events.S3Event) {
	for _, k := range keys {
		e.Records = append(e.Records, events.S3EventRecord{S3: events.S3Entity{Object: events.S3Object{Key: k}}})
	}
	return e
}

func TestUploadsWithPrefixAreDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		var received []string
		r, stop := fx.start(t, false, uploadFunction(&received, succeed))
		r.QueueEvent(event("uploads/a%2Fb+c", "artifacts/x", "%zz"))
		synctest.Wait()
		stop()
		if want := []string{"uploads/a/b c"}; !slices.Equal(received, want) {
			t.Errorf("received = %q, want %q", received, want)
		}
	})
}

func TestFailedUploadIsAttemptedThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		var received []string
		r, stop := fx.start(t, false, uploadFunction(&received, func(int) error { return errors.New("no") }))
		r.QueueEvent(event("uploads/a"))
		time.Sleep(30 * time.Second)
		stop()
		if len(received) != 3 {
			t.Errorf("received = %q, want 3 calls", received)
		}
	})
}

func TestUploadWithLostEventIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		fx.objects.set("uploads/before the start")
		var received []string
		_, stop := fx.start(t, false, uploadFunction(&received, succeed))
		synctest.Wait()
		if want := []string{"uploads/before the start"}; !slices.Equal(received, want) {
			t.Errorf("received at the start = %q, want %q", received, want)
		}
		fx.objects.set("uploads/before the start", "uploads/later", "broken")
		time.Sleep(3*time.Minute + time.Second)
		fx.objects.set("uploads/before the start", "uploads/later")
		time.Sleep(5 * time.Minute)
		stop()
		if want := []string{"uploads/before the start", "uploads/later"}; !slices.Equal(received, want) {
			t.Errorf("received at the end = %q, want %q", received, want)
		}
	})
}

func TestUploadsArePolledWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		var received []string
		_, stop := fx.start(t, true, uploadFunction(&received, succeed))
		synctest.Wait()
		fx.objects.set("uploads/a")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if want := []string{"uploads/a"}; !slices.Equal(received, want) {
			t.Errorf("received = %q, want %q", received, want)
		}
	})
}

func TestCallEndsWithItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{}
		var elapsed time.Duration
		f := triggers.Function{
			Function: trigger.Function{
				Name: "f", Timeout: 5 * time.Second,
				Events: []trigger.Event{{Schedule: &trigger.Schedule{Interval: 50 * time.Minute}}},
			},
			Handler: handler(func(ctx context.Context, _ []byte) ([]byte, error) {
				start := time.Now()
				<-ctx.Done()
				elapsed = time.Since(start)
				return nil, ctx.Err()
			}),
		}
		_, stop := fx.start(t, false, f)
		time.Sleep(time.Minute)
		stop()
		if elapsed != 5*time.Second {
			t.Errorf("the call takes %v, want 5s", elapsed)
		}
	})
}

func idSource(t *testing.T) *ids.Source { return ids.NewSource(storetest.Random(t), time.Now) }

func openDir(t *testing.T) *datadir.Dir {
	t.Helper()
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

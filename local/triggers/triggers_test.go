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
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/trigger"
)

// handler is a Lambda handler that is a function.
type handler func(ctx context.Context, payload []byte) ([]byte, error)

func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return h(ctx, payload) }

// world is what a Runner works on.
type world struct {
	stream      fakeStream
	checkpoints fakeCheckpoints
	objects     fakeObjects
	// ahead is by how much the wall clock is ahead of the bubble's.
	ahead atomic.Int64
}

func (w *world) clock() time.Time { return time.Now().Round(0).Add(time.Duration(w.ahead.Load())) }

// start runs functions until the test's bubble has done what it wants.
func (w *world) start(t *testing.T, polled bool, functions ...triggers.Function) (*triggers.Runner, func()) {
	t.Helper()
	r, err := triggers.New(triggers.Options{
		Functions: functions, Feed: triggers.Shards(&w.stream), Checkpoints: &w.checkpoints, Objects: &w.objects, Polled: polled,
		IDs: idSource(t), Now: w.clock, Log: slog.New(slog.DiscardHandler),
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
	mu      sync.Mutex
	records int
	broken  int // that many next reads fail
	trimmed bool
}

func (s *fakeStream) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records += n
}

func (s *fakeStream) ARN(context.Context) (string, error) { return "arn", nil }

func (s *fakeStream) DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: &types.StreamDescription{Shards: []types.Shard{{ShardId: new("shard")}}}}, nil
}

func (s *fakeStream) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if in.ShardIteratorType == types.ShardIteratorTypeTrimHorizon {
		return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: new("0")}, nil
	}
	if s.trimmed {
		return nil, &types.TrimmedDataAccessException{}
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: in.SequenceNumber}, nil
}

func (s *fakeStream) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken > 0 {
		s.broken--
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
				Keys:           map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: fmt.Sprint("item ", next)}},
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

// changes is a function of the stream that remembers what it was told and
// answers what react says.
func changes(told *[]string, react func(call int, sequences []string) ([]string, error)) triggers.Function {
	call := 0
	return triggers.Function{
		Function: trigger.Function{Name: "operations", On: []trigger.Event{{StreamRecords: true}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			var e events.DynamoDBEvent
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			var sequences []string
			for _, r := range e.Records {
				sequences = append(sequences, r.Change.SequenceNumber)
			}
			*told = append(*told, sequences...)
			call++
			var answer events.DynamoDBEventResponse
			failed, err := react(call, sequences)
			for _, s := range failed {
				answer.BatchItemFailures = append(answer.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: s})
			}
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		}),
	}
}

func fine(int, []string) ([]string, error) { return nil, nil }

func numbers(from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func TestStreamIsDeliveredOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{stream: fakeStream{records: 150}}
		var told []string
		_, stop := w.start(t, false, changes(&told, fine))
		time.Sleep(5 * time.Second)
		w.stream.add(3)
		time.Sleep(5 * time.Second)
		stop()
		if want := numbers(1, 153); !slices.Equal(told, want) {
			t.Errorf("told %v", told)
		}
		if w.checkpoints.position["shard"] != "153" {
			t.Errorf("checkpoint %v", w.checkpoints.position)
		}
	})
}

func TestStreamGoesOnFromTheCheckpoint(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trimmed bool
		want    []string
	}{
		{"there", false, numbers(3, 5)},
		{"trimmed", true, numbers(1, 5)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{
					stream:      fakeStream{records: 5, trimmed: tc.trimmed},
					checkpoints: fakeCheckpoints{position: triggers.Position{"shard": "2"}},
				}
				var told []string
				_, stop := w.start(t, false, changes(&told, fine))
				time.Sleep(5 * time.Second)
				stop()
				if !slices.Equal(told, tc.want) {
					t.Errorf("told %v, want %v", told, tc.want)
				}
			})
		})
	}
}

func TestCheckpointsAreWrittenAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var told []string
		_, stop := w.start(t, false, changes(&told, fine))
		for range 100 {
			w.stream.add(1)
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		if len(told) != 100 || w.checkpoints.saves > 12 {
			t.Errorf("%d records, %d checkpoints in 10 s", len(told), w.checkpoints.saves)
		}
	})
}

func TestFailedRecordsComeAgainFromTheFirstOneOn(t *testing.T) {
	for name, tc := range map[string]struct {
		react func(call int, sequences []string) ([]string, error)
		want  []string
	}{
		"some failed": {func(call int, _ []string) ([]string, error) {
			if call == 1 {
				return []string{"4", "3"}, nil
			}
			return nil, nil
		}, append(numbers(1, 5), numbers(3, 5)...)},
		"all failed": {func(call int, _ []string) ([]string, error) {
			if call < 3 {
				return nil, errors.New("no")
			}
			return nil, nil
		}, slices.Concat(numbers(1, 5), numbers(1, 5), numbers(1, 5))},
		"panicked": {func(call int, _ []string) ([]string, error) {
			if call == 1 {
				panic("no")
			}
			return nil, nil
		}, append(numbers(1, 5), numbers(1, 5)...)},
		"unknown one failed": {func(call int, _ []string) ([]string, error) {
			if call == 1 {
				return []string{"99"}, nil
			}
			return nil, nil
		}, append(numbers(1, 5), numbers(1, 5)...)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{stream: fakeStream{records: 5, broken: 2}}
				var told []string
				_, stop := w.start(t, false, changes(&told, tc.react))
				time.Sleep(time.Minute)
				stop()
				if !slices.Equal(told, tc.want) {
					t.Errorf("told %v, want %v", told, tc.want)
				}
			})
		})
	}
}

func TestPoisonedRecordDoesNotStopTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{stream: fakeStream{records: 3}}
		var told []string
		_, stop := w.start(t, false, changes(&told, func(_ int, sequences []string) ([]string, error) {
			if slices.Contains(sequences, "2") {
				return []string{"2"}, nil
			}
			return nil, nil
		}))
		time.Sleep(time.Minute)
		w.stream.add(1)
		time.Sleep(time.Minute)
		stop()
		if told[len(told)-1] != "4" {
			t.Errorf("told %v", told)
		}
	})
}

// uploads is a function of uploads that remembers their keys.
func uploads(told *[]string, answer func(call int) error) triggers.Function {
	var mu sync.Mutex
	call := 0
	return triggers.Function{
		Function: trigger.Function{Name: "builder", On: []trigger.Event{{ObjectCreated: "uploads/"}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			var e events.S3Event
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			for _, r := range e.Records {
				*told = append(*told, r.S3.Object.URLDecodedKey)
			}
			call++
			return nil, answer(call)
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

func TestUploadsBelowThePrefixAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var told []string
		r, stop := w.start(t, false, uploads(&told, succeed))
		r.ObjectCreated(event("uploads/a%2Fb+c", "artifacts/x", "%zz"))
		synctest.Wait()
		stop()
		if want := []string{"uploads/a/b c"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestUploadIsTriedThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var told []string
		r, stop := w.start(t, false, uploads(&told, func(int) error { return errors.New("no") }))
		r.ObjectCreated(event("uploads/a"))
		time.Sleep(30 * time.Second)
		stop()
		if len(told) != 3 {
			t.Errorf("told %q", told)
		}
	})
}

func TestUploadWhoseEventGotLostIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.objects.set("uploads/before the start")
		var told []string
		_, stop := w.start(t, false, uploads(&told, succeed))
		synctest.Wait()
		if want := []string{"uploads/before the start"}; !slices.Equal(told, want) {
			t.Errorf("at the start: %q", told)
		}
		w.objects.set("uploads/before the start", "uploads/later", "broken")
		time.Sleep(3*time.Minute + time.Second)
		w.objects.set("uploads/before the start", "uploads/later")
		time.Sleep(5 * time.Minute)
		stop()
		if want := []string{"uploads/before the start", "uploads/later"}; !slices.Equal(told, want) {
			t.Errorf("in the end: %q, want %q", told, want)
		}
	})
}

func TestUploadsAreLookedForEachSecondWhereNoEventsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var told []string
		_, stop := w.start(t, true, uploads(&told, succeed))
		synctest.Wait()
		w.objects.set("uploads/a")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if want := []string{"uploads/a"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestCallEndsWithItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var took time.Duration
		f := triggers.Function{
			Function: trigger.Function{Name: "f", Timeout: 5 * time.Second, On: []trigger.Event{{Schedule: &trigger.Schedule{Every: 50 * time.Minute}}}},
			Handler: handler(func(ctx context.Context, _ []byte) ([]byte, error) {
				start := time.Now()
				<-ctx.Done()
				took = time.Since(start)
				return nil, ctx.Err()
			}),
		}
		_, stop := w.start(t, false, f)
		time.Sleep(time.Minute)
		stop()
		if took != 5*time.Second {
			t.Errorf("took %v", took)
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

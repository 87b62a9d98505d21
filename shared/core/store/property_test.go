package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// drawWrites draws a transaction over a few items, without writes that Table itself refuses.
func drawWrites(t *rapid.T, partition string) (writes []store.Write) {
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 4, rapid.ID[int]).Draw(t, "items") {
		k := key(fmt.Sprint(partition, n%2), n)
		var w store.Write
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			w = store.Put(k, drawRecord(t, partition))
		case 1:
			w = store.Create(k, drawRecord(t, partition))
		case 2:
			w = store.Upsert(k, drawChanges(t)...)
		case 3:
			w = store.Update(k, drawChanges(t)...)
		case 4:
			w = store.Delete(k)
		case 5:
			w = store.Check(k, drawCondition(t, 2))
		}
		if slices.ContainsFunc(w.Changes, func(c store.Change) bool {
			return c.Kind == store.RemoveKind && len(c.Path) > 1
		}) {
			// Require the map: the emulator accepts a REMOVE below a missing map, but DynamoDB does not.
			w = w.If(store.Has(store.At("map", "there")))
		}
		if rapid.IntRange(0, 3).Draw(t, "with a condition") == 0 {
			w = w.If(drawCondition(t, 2))
		}
		writes = append(writes, w)
	}
	return writes
}

func drawValue(t *rapid.T) any {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-2000, 2000), func(n int) any { return n }),
		rapid.Map(rapid.IntRange(-9, 9), func(n int) any { return float64(n) / 4 }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "é", strings.Repeat("x", 900), strings.Repeat("y", 5000)}),
			func(s string) any { return s }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 3), func(b []byte) any { return b }),
		rapid.Map(rapid.SliceOfN(rapid.IntRange(0, 2), 0, 3), func(l []int) any { return l }),
		rapid.Just(any(nil)),
		rapid.Just(any(map[string]any{"there": 1, "n": 2})),
	).Draw(t, "value")
}

// drawValueOf draws a value for an attribute. It draws no null for the map,
// because the emulator accepts a SET below a null and DynamoDB does not.
func drawValueOf(t *rapid.T, attribute string) any {
	v := drawValue(t)
	if v == nil && attribute == "map" {
		return "null"
	}
	return v
}

var attributes = []string{"a", "b", "map", "size"} // size is a reserved word

func drawRecord(t *rapid.T, partition string) map[string]any {
	record := map[string]any{}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(attributes), rapid.ID[string]).Draw(t, "attributes") {
		record[name] = drawValueOf(t, name)
	}
	if rapid.Bool().Draw(t, "with a map") {
		record["map"] = map[string]any{"there": 1, "n": 2}
	}
	if rapid.Bool().Draw(t, "in the due index") {
		record["duePk"], record["dueSk"] = partition+"due", rapid.SampledFrom([]string{"1", "2"}).Draw(t, "dueSk")
	}
	return record
}

func drawChanges(t *rapid.T) (changes []store.Change) {
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(append(slices.Clone(attributes), "dueSk")), 1, 3,
		rapid.ID[string]).Draw(t, "changed attributes") {
		path := store.At(name)
		if name == "dueSk" {
			changes = append(changes, store.Set(path, rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "dueSk")))
			continue
		}
		if name == "map" && rapid.Bool().Draw(t, "nested") {
			path = store.At(name, rapid.SampledFrom([]string{"n", "there", "new"}).Draw(t, "entry"))
		}
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			changes = append(changes, store.Set(path, drawValueOf(t, name)))
		case 1:
			changes = append(changes, store.Add(path, rapid.Int64Range(-5, 5).Draw(t, "summand")))
		case 2:
			changes = append(changes, store.Remove(path))
		}
	}
	return changes
}

func drawCondition(t *rapid.T, depth int) store.Condition {
	path := store.At(rapid.SampledFrom(attributes).Draw(t, "attribute"))
	if path[0] == "map" && rapid.Bool().Draw(t, "nested") {
		path = append(path, rapid.SampledFrom([]string{"n", "there", "new"}).Draw(t, "entry"))
	}
	kinds := 8
	if depth > 0 {
		kinds = 10
	}
	switch kind := rapid.IntRange(0, kinds).Draw(t, "condition"); kind {
	case 0:
		return store.Exists()
	case 1:
		return store.Absent()
	case 2:
		return store.Has(path)
	case 3:
		return store.Lacks(path)
	case 4:
		return store.Equal(path, drawValue(t))
	case 5:
		return store.NotEqual(path, drawValue(t))
	case 6, 7, 8:
		order := []func(store.Path, any) store.Condition{store.Less, store.AtMost, store.AtLeast}[kind-6]
		return order(path, rapid.SampledFrom([]any{0, 1, -0.25, "a", []byte{1}}).Draw(t, "bound"))
	default:
		parts := make([]store.Condition, rapid.IntRange(1, 3).Draw(t, "parts"))
		for i := range parts {
			parts[i] = drawCondition(t, depth-1)
		}
		if kind == 9 {
			return store.And(parts...)
		}
		return store.Or(parts...)
	}
}

// outcome is the result of a transaction: the indexes of the writes whose conditions were false, whether there was
// another error, and the cost.
type outcome struct {
	Failed  []int
	Refused bool
	Usage   store.Usage
}

// transact makes a transaction. If the emulator drops the connection, it repeats
// the transaction. Then retried is true, and the cost may be that of a repeat.
func transact(t *rapid.T, b store.Backend, token string, writes []store.Write) (out outcome, retried bool) {
	for attempt := range 5 {
		var meter store.Meter
		err := b.Transact(store.WithMeter(t.Context(), &meter), token, writes)
		if errors.Is(err, store.ErrRetryable) {
			retried = true
			if attempt == 4 {
				t.Fatalf("Transact() = %v in each of 5 attempts, want a result that is not retryable", err)
			}
			continue
		}
		out.Usage = meter.Usage()
		if failed, ok := errors.AsType[*store.ConditionError](err); ok {
			out.Failed = failed.Failed
		} else {
			out.Refused = err != nil
		}
		break
	}
	return out, retried
}

// content returns the results of all kinds of reads and queries of the items that drawWrites uses.
func content(
	t *rapid.T, table *store.Table, partition string,
) (items map[string]map[string]any, due []store.Key, usage store.Usage) {
	var meter store.Meter
	ctx := store.WithMeter(t.Context(), &meter)
	items = map[string]map[string]any{}
	for n := range 2 {
		err := table.Each(ctx, store.Query{PK: fmt.Sprint(partition, n)}, func(item store.Item) (bool, error) {
			var record map[string]any
			err := attributevalue.UnmarshalMap(item, &record)
			items[store.KeyOf(item).SK] = record
			return true, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	due, err := table.Keys(ctx, store.Query{Index: store.DueIndex, PK: partition + "due"})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Load(ctx, store.Get(key(partition+"0", 0), nil), store.Get(key(partition+"1", 1), nil)); err != nil {
		t.Fatal(err)
	}
	return items, due, meter.Usage()
}

// TestBackendsAgree checks that the backends accept and refuse the same writes, have the same content afterwards,
// and charge the same units. It also checks that the stream of package memory equals the feed of package embedded.
func TestBackendsAgree(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	dynamo := store.NewDynamoDB(client, name)
	engine, lastSeq := newEmbedded(t), uint64(0)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		partition := fmt.Sprint("run-", run, "-")
		memory := memory.New()
		var stream []store.StreamRecord
		memory.OnChange(func(r store.StreamRecord) { stream = append(stream, r) })
		var previous []store.Write // the writes of the previous step, nil if the step was a repeat
		for step := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			token := fmt.Sprint(partition, step)
			writes := drawWrites(rt, partition)
			repeated := previous != nil && rapid.IntRange(0, 5).Draw(rt, "repeat the previous step") == 0
			if repeated {
				token, writes = fmt.Sprint(partition, step-1), previous
			}
			inMemory, _ := transact(rt, memory, token, writes)
			inEngine, _ := transact(rt, engine, token, writes)
			if diff := cmp.Diff(inMemory, inEngine); diff != "" {
				rt.Fatalf("step %d, writes %+v: want the same result from memory (-) and embedded (+)\n%s", step, writes, diff)
			}
			inDynamo, retried := transact(rt, dynamo, token, writes)
			if repeated || retried {
				inDynamo.Usage = inMemory.Usage // do not compare the cost of a repeat
			}
			if diff := cmp.Diff(inMemory, inDynamo); diff != "" {
				rt.Fatalf("step %d, writes %+v: want the same result from memory (-) and DynamoDB (+)\n%s", step, writes, diff)
			}
			if previous = writes; repeated {
				previous = nil
			}
		}
		items, due, usage := content(rt, storetest.NewWithBackend(t, memory), partition)
		engineItems, engineDue, engineUsage := content(rt, storetest.NewWithBackend(t, engine), partition)
		if diff := cmp.Diff(items, engineItems); diff != "" || usage != engineUsage || !slices.Equal(due, engineDue) {
			rt.Fatalf("want the same content in memory (-) and embedded (+)\n%s\ndue %v, %v\nreads cost %+v, %+v",
				diff, due, engineDue, usage, engineUsage)
		}
		var feed []store.StreamRecord
		for len(stream) > len(feed) {
			changes, err := engine.Changes(t.Context(), lastSeq, 2)
			if err != nil {
				rt.Fatal(err)
			}
			for _, c := range changes {
				if lastSeq = c.Seq; strings.HasPrefix(c.Key.PK, partition) { // ignore records of earlier runs
					feed = append(feed, c.StreamRecord)
				}
			}
		}
		if diff := cmp.Diff(stream, feed, cmpopts.IgnoreUnexported(types.AttributeValueMemberS{},
			types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
			types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberM{},
			types.AttributeValueMemberL{})); diff != "" {
			rt.Fatalf("want the same changes in the stream of memory (-) and the embedded feed (+)\n%s", diff)
		}
		retries := 0 // the number of calls that were repeated because the emulator had dropped the connection
		countRetries := storetest.Backoff(func(context.Context, int) error {
			retries++
			return nil
		})
		dynamoItems, dynamoDue, dynamoUsage := content(rt, storetest.NewWithBackend(t, dynamo, countRetries), partition)
		if diff := cmp.Diff(items, dynamoItems); diff != "" {
			rt.Fatalf("want the same content in memory (-) and DynamoDB (+)\n%s", diff)
		}
		if !slices.Equal(due, dynamoDue) {
			rt.Fatalf("due in DynamoDB = %v, want %v as in memory", dynamoDue, due)
		}
		if retries > 0 { // it is unknown which kind of call was repeated: only the sum is compared
			usage.Reads, usage.Queries = 0, usage.Reads+usage.Queries
			dynamoUsage.Reads, dynamoUsage.Queries = 0, dynamoUsage.Reads+dynamoUsage.Queries-retries
		}
		if usage != dynamoUsage {
			rt.Fatalf("reads from DynamoDB cost %+v with %d retries, want %+v as from memory", dynamoUsage, retries, usage)
		}
	})
}

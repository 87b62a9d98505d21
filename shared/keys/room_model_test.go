package keys_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// trouble is what becomes of the transactions of a call.
type trouble struct {
	store.Backend
	// in is how many transactions pass before it; none is no trouble.
	in int
	// before happens first, once: another process's work, or a loss.
	before func()
	// kill ends the process then: after the transaction took effect with late, before it without. All calls fail from then on.
	kill, late, dead bool
}

const none = -1

var errKilled = errors.New("the process was killed")

// Transact implements store.Backend.
func (b *trouble) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.dead {
		return errKilled
	}
	if b.in > 0 {
		b.in--
	} else if b.in == 0 {
		b.in = none
		if do := b.before; do != nil {
			b.before = nil
			do()
		}
		if b.kill {
			b.dead = true
			if b.late {
				_ = b.Backend.Transact(ctx, token, writes)
			}
			return errKilled
		}
	}
	return b.Backend.Transact(ctx, token, writes)
}

// tenancy does the same to the service and to an oracle, which knows docs/limits.md alone: who is there, and how many may be.
type tenancy struct {
	*world
	trouble *trouble
	limit   int64
	there   map[string]map[string]bool // bucket, consumer
	lowered bool                       // within the call that is under way
	least   int                        // that there were within it
	most    int
	inside  bool
}

func (o *tenancy) count() (n int) {
	for _, names := range o.there {
		n += len(names)
	}
	return n
}

// saw notes how many there are.
func (o *tenancy) saw() { o.least, o.most = min(o.least, o.count()), max(o.most, o.count()) }

// call does something that may be in trouble, and tells whether its process was killed at it.
func (o *tenancy) call(t *rapid.T, do func(s *keys.Service) error) (killed bool, err error) {
	if o.inside { // of another process, in the middle of a call
		err = do(o.instances[1])
		o.saw()
		return false, err
	}
	o.least, o.most, o.lowered = o.count(), o.count(), false
	*o.trouble = trouble{Backend: o.trouble.Backend, in: none}
	if rapid.IntRange(0, 2).Draw(t, "trouble") == 0 {
		o.trouble.in = rapid.IntRange(0, 2).Draw(t, "in")
		o.trouble.kill, o.trouble.late = rapid.Bool().Draw(t, "kill"), rapid.Bool().Draw(t, "late")
		if !o.trouble.kill {
			o.trouble.before = func() {
				o.inside = true
				o.Do(t)
				o.inside = false
			}
		}
	}
	err = do(o.instances[0])
	killed, o.trouble.dead, o.trouble.in = o.trouble.dead, false, none
	return killed, err
}

// made judges the answer to a creation.
func (o *tenancy) made(t *rapid.T, bucket, name string, err error, killed bool) {
	if killed { // the client reads before it repeats
		_, err = o.instances[1].ReadConsumer(o.request(), keys.ConsumerAt{BucketAt: in(bucket), Consumer: name}, keys.Include{})
		if there := o.there[bucket] != nil && o.there[bucket][name]; err != nil && (fault.Is(err, fault.NotFound) && !there) || err == nil && there {
			return
		}
	}
	names := o.there[bucket]
	switch {
	case err == nil && names == nil: // deleted in the middle, with what comes of it
	case err == nil:
		if names[name] {
			t.Fatalf("%s was made in %s, where are %v", name, bucket, names)
		}
		names[name] = true
		o.saw()
		if int64(o.count()) > o.limit && !o.lowered {
			t.Fatalf("one was made, and there are %d of %d", o.count(), o.limit)
		}
	case fault.Is(err, fault.NotFound) && names == nil, fault.Is(err, fault.Conflict) && (names == nil || names[name]):
	case fault.Is(err, fault.Forbidden):
		if int64(o.most) < o.limit && !o.lowered {
			t.Fatalf("one more was refused, where are %d of %d: %v", o.most, o.limit, err)
		}
	default:
		t.Fatalf("create %s in %s: %v", name, bucket, err)
	}
}

func (o *tenancy) Create(t *rapid.T) {
	bucket, name := rapid.SampledFrom(rooms).Draw(t, "bucket"), rapid.SampledFrom(crowding()).Draw(t, "name")
	killed, err := o.call(t, func(s *keys.Service) error {
		_, err := s.CreateConsumer(o.request(), in(bucket), keys.NewConsumer{Name: name, WithKey: true})
		return err
	})
	o.made(t, bucket, name, err, killed)
}

func (o *tenancy) Delete(t *rapid.T) {
	bucket := rapid.SampledFrom(rooms).Draw(t, "bucket")
	names := slices.Sorted(maps.Keys(o.there[bucket]))
	if len(names) == 0 {
		return
	}
	at := keys.ConsumerAt{BucketAt: in(bucket), Consumer: rapid.SampledFrom(names).Draw(t, "name")}
	killed, err := o.call(t, func(s *keys.Service) error { return s.DeleteConsumer(o.request(), at) })
	if killed {
		_, err = o.instances[1].ReadConsumer(o.request(), at, keys.Include{})
	}
	switch {
	case killed && err == nil:
	case err != nil && !fault.Is(err, fault.NotFound):
		t.Fatalf("delete %s: %v", at.Consumer, err)
	default:
		delete(o.there[bucket], at.Consumer)
		o.saw()
	}
}

func (o *tenancy) Bucket(t *rapid.T) {
	bucket := rapid.SampledFrom(rooms).Draw(t, "bucket")
	if o.there[bucket] != nil {
		killed, err := o.call(t, func(s *keys.Service) error { return s.DeleteBucket(o.request(), in(bucket)) })
		if killed {
			_, err = o.instances[1].ReadBucket(o.request(), in(bucket))
		}
		if killed && err == nil {
			return
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatalf("delete %s: %v", bucket, err)
		}
		delete(o.there, bucket)
		o.saw()
		return
	}
	killed, err := o.call(t, func(s *keys.Service) error {
		_, err := s.CreateBucket(o.request(), owner, keys.NewBucket{Name: bucket})
		return err
	})
	if killed {
		_, err = o.instances[1].ReadBucket(o.request(), in(bucket))
	}
	if err == nil && o.there[bucket] == nil {
		o.there[bucket] = map[string]bool{}
	} else if err != nil && !killed && !fault.Is(err, fault.Conflict) {
		t.Fatalf("create %s: %v", bucket, err)
	}
}

func (o *tenancy) Limit(t *rapid.T) {
	limit := rapid.SampledFrom([]int64{1, 2, 4, 7, 300, 10_000}).Draw(t, "limit")
	c := counts.Open(installation.Parts{Table: o.table, Now: o.clock.Now})
	must0(o, c.Set(o.request(), accountID, limits.Consumers, limit))
	o.limit, o.lowered = limit, true // or raised: who was decided before knows the old one
}

func (o *tenancy) Time(t *rapid.T) {
	if !o.inside {
		o.clock.add(rapid.SampledFrom([]time.Duration{time.Second, time.Hour, 25 * time.Hour}).Draw(t, "time"))
		must0(o, o.engine.Sweep(o.Context()))
	}
}

// Do does one thing.
func (o *tenancy) Do(t *rapid.T) {
	switch n := rapid.IntRange(0, 19).Draw(t, "do"); {
	case n < 10:
		o.Create(t)
	case n < 14:
		o.Delete(t)
	case n < 16:
		o.Bucket(t)
	case n < 18:
		o.Limit(t)
	default:
		o.Time(t)
	}
}

// check compares what there is, and what is kept of it, with the oracle.
func (o *tenancy) check(t *rapid.T) {
	for bucket, names := range o.there {
		got, _, total, err := o.keys.ListConsumers(o.request(), in(bucket), keys.Filter{}, all, keys.Include{})
		must0(o, err)
		if total != len(names) || len(got) != len(names) {
			t.Fatalf("%s has %d consumers, counts %d, and was given %v", bucket, len(got), total, names)
		}
	}
	status, err := counts.Open(installation.Parts{Table: o.table, Now: o.clock.Now}).List(o.Context(), accountID)
	must0(o, err)
	bound := status[slices.IndexFunc(status, func(s counts.Status) bool { return s.Name == limits.Consumers.Name })].Bound
	if given := o.given(t); bound >= 0 && (bound < given || given < int64(o.count())) {
		t.Fatalf("there are %d, %d are given out, and the account's bound is %d", o.count(), given, bound)
	}
}

// given is what the shards of all buckets that are there have, counted and idle.
func (o *tenancy) given(t *rapid.T) (sum int64) {
	generation := map[string]string{} // the newest of each bucket
	of := map[string]int64{}
	for key, item := range o.memory.Items() {
		var r struct {
			Room       int64 `dynamodbav:"room"`
			Consumers  int64 `dynamodbav:"consumers"`
			Generation int64 `dynamodbav:"generation"`
		}
		switch {
		case strings.HasPrefix(key.PK, "consumer-count#"):
			must0(o, store.Decode(item, &r))
			if r.Room < 0 || r.Consumers < 0 {
				t.Fatalf("%v counts %d and has room for %d", key, r.Consumers, r.Room)
			}
			of[key.PK] += r.Room + r.Consumers
		case strings.HasPrefix(key.PK, "buckets#"):
			must0(o, store.Decode(item, &r))
			generation[strings.TrimPrefix(key.SK, "bucket#")] = fmt.Sprint(r.Generation)
		}
	}
	for bucket := range o.there {
		for pk, n := range of {
			if strings.HasSuffix(pk, "/"+bucket+"/"+generation[bucket]) {
				sum += n
			}
		}
	}
	return sum
}

// shardOf is which of a bucket's 16 shards counts a consumer.
func shardOf(consumer string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(consumer))
	return h.Sum32() % 16
}

// crowding are names of consumers that two shards of a bucket count: so they meet in the middle of each other's changes.
func crowding() (names []string) {
	for i := range 400 {
		if name := fmt.Sprint("c", i); shardOf(name) < 2 {
			names = append(names, name)
		}
	}
	return names
}

var rooms = []string{"first-room", "second-room", "third-room"}

// TestConsumersOfAnAccountAreAsAnOracleHasThem: whatever is made and deleted in whatever buckets, by two processes, of which
// one works in the middle of the other's changes, or the other is killed before or after any transaction; whatever
// the limit becomes, and however long ago anything was counted: never one more than the limit, none refused below it, and
// what is counted is what there is.
func TestConsumersOfAnAccountAreAsAnOracleHasThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tr := &trouble{in: none}
		w := worldOver(t, memory.New(), func(b store.Backend) store.Backend { tr.Backend = b; return tr })
		o := &tenancy{world: w, trouble: tr, limit: 4, there: map[string]map[string]bool{}}
		w.own(t, limits.Consumers, o.limit)
		for _, bucket := range rooms[:2] {
			must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: bucket}))
			o.there[bucket] = map[string]bool{}
		}
		for range 40 {
			o.Do(rt)
			o.check(rt)
		}
	})
}

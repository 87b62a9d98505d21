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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// disturbedBackend disturbs one transaction: it calls a function before the transaction, or kills the process.
type disturbedBackend struct {
	store.Backend
	// after is the number of transactions that are still left before the disturbed transaction. The value undisturbed
	// means that no transaction is disturbed.
	after int
	// beforeCommit, if not nil, is called once before the disturbed transaction. It can act as another process.
	beforeCommit func()
	// kill makes the process die before the disturbed transaction or, if afterCommit is true, after the transaction took
	// effect. dead is true after that, and all later transactions fail.
	kill, afterCommit, dead bool
}

const undisturbed = -1

var errKilled = errors.New("the process was killed")

// Transact implements store.Backend.
func (b *disturbedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.dead {
		return errKilled
	}
	if b.after > 0 {
		b.after--
	} else if b.after == 0 {
		b.after = undisturbed
		if beforeCommit := b.beforeCommit; beforeCommit != nil {
			b.beforeCommit = nil
			beforeCommit()
		}
		if b.kill {
			b.dead = true
			if b.afterCommit {
				_ = b.Backend.Transact(ctx, token, writes)
			}
			return errKilled
		}
	}
	return b.Backend.Transact(ctx, token, writes)
}

// accountModel applies the same actions to the service and to a model. The model implements docs/limits.md: it has only
// the existing consumers and the limit.
type accountModel struct {
	*fixture
	backend      *disturbedBackend
	limit        int64
	existing     map[string]map[string]bool // by bucket and consumer
	limitChanged bool                       // ChangeLimit ran during the current call
	maxCount     int                        // maximum of count during the current call
	nested       bool                       // the second process is acting during a call of the first process
}

func (m *accountModel) count() (n int) {
	for _, names := range m.existing {
		n += len(names)
	}
	return n
}

// recordCount updates maxCount with the current number of consumers.
func (m *accountModel) recordCount() {
	m.maxCount = max(m.maxCount, m.count())
}

// call runs an action with the first process. It may disturb one of the action's transactions, and reports whether the
// process was killed.
func (m *accountModel) call(t *rapid.T, action func(s *keys.Service) error) (killed bool, err error) {
	if m.nested { // the second process runs the action, in the middle of a call of the first
		err = action(m.instances[1])
		m.recordCount()
		return false, err
	}
	m.maxCount, m.limitChanged = m.count(), false
	*m.backend = disturbedBackend{Backend: m.backend.Backend, after: undisturbed}
	if rapid.IntRange(0, 2).Draw(t, "undisturbed if not 0") == 0 {
		m.backend.after = rapid.IntRange(0, 2).Draw(t, "transactions before the disturbed one")
		m.backend.kill, m.backend.afterCommit = rapid.Bool().Draw(t, "kill"), rapid.Bool().Draw(t, "after the commit")
		if !m.backend.kill {
			m.backend.beforeCommit = func() {
				m.nested = true
				m.RunAction(t)
				m.nested = false
			}
		}
	}
	err = action(m.instances[0])
	killed, m.backend.dead, m.backend.after = m.backend.dead, false, undisturbed
	return killed, err
}

// checkCreated compares the result of CreateConsumer with the model, and adds a created consumer to it.
func (m *accountModel) checkCreated(t *rapid.T, bucket, name string, err error, killed bool) {
	if killed { // a client does not know the result, so it reads the consumer
		_, err = m.instances[1].ReadConsumer(m.requestContext(),
			keys.ConsumerLocator{BucketLocator: bucketAt(bucket), Consumer: name}, keys.Include{})
		if exists := m.existing[bucket] != nil && m.existing[bucket][name]; err != nil &&
			(fault.Is(err, fault.NotFound) && !exists) || err == nil && exists {
			return
		}
	}
	names := m.existing[bucket]
	switch {
	case err == nil && names == nil: // the bucket was deleted during the call, with the new consumer
	case err == nil:
		if names[name] {
			t.Fatalf("CreateConsumer(%s, %s) succeeds with consumers %v, want a conflict", bucket, name, names)
		}
		names[name] = true
		m.recordCount()
		if int64(m.count()) > m.limit && !m.limitChanged {
			t.Fatalf("CreateConsumer() succeeds with %d consumers, want at most %d", m.count(), m.limit)
		}
	case fault.Is(err, fault.NotFound) && names == nil, fault.Is(err, fault.Conflict) && (names == nil || names[name]):
	case fault.Is(err, fault.Forbidden):
		if int64(m.maxCount) < m.limit && !m.limitChanged {
			t.Fatalf("CreateConsumer() error = %v with %d consumers, want success up to %d", err, m.maxCount, m.limit)
		}
	default:
		t.Fatalf("CreateConsumer(%s, %s) error = %v, want none, or a fault that fits the consumers %v of the bucket",
			bucket, name, err, names)
	}
}

func (m *accountModel) Create(t *rapid.T) {
	bucket, name := rapid.SampledFrom(bucketNames).Draw(t, "bucket"), rapid.SampledFrom(collidingNames()).Draw(t, "name")
	killed, err := m.call(t, func(s *keys.Service) error {
		_, err := s.CreateConsumer(m.requestContext(), bucketAt(bucket), keys.NewConsumer{Name: name, WithKey: true})
		return err
	})
	m.checkCreated(t, bucket, name, err, killed)
}

func (m *accountModel) Delete(t *rapid.T) {
	bucket := rapid.SampledFrom(bucketNames).Draw(t, "bucket")
	names := slices.Sorted(maps.Keys(m.existing[bucket]))
	if len(names) == 0 {
		return
	}
	at := keys.ConsumerLocator{BucketLocator: bucketAt(bucket), Consumer: rapid.SampledFrom(names).Draw(t, "name")}
	killed, err := m.call(t, func(s *keys.Service) error { return s.DeleteConsumer(m.requestContext(), at) })
	if killed {
		_, err = m.instances[1].ReadConsumer(m.requestContext(), at, keys.Include{})
	}
	switch {
	case killed && err == nil:
	case err != nil && !fault.Is(err, fault.NotFound):
		t.Fatalf("DeleteConsumer(%s) error = %v, want none or %v", at.Consumer, err, fault.NotFound)
	default:
		delete(m.existing[bucket], at.Consumer)
		m.recordCount()
	}
}

func (m *accountModel) ToggleBucket(t *rapid.T) {
	bucket := rapid.SampledFrom(bucketNames).Draw(t, "bucket")
	if m.existing[bucket] != nil {
		killed, err := m.call(t, func(s *keys.Service) error { return s.DeleteBucket(m.requestContext(), bucketAt(bucket)) })
		if killed {
			_, err = m.instances[1].ReadBucket(m.requestContext(), bucketAt(bucket))
		}
		if killed && err == nil {
			return
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatalf("DeleteBucket(%s) error = %v, want none or %v", bucket, err, fault.NotFound)
		}
		delete(m.existing, bucket)
		m.recordCount()
		return
	}
	killed, err := m.call(t, func(s *keys.Service) error {
		_, err := s.CreateBucket(m.requestContext(), owner, keys.NewBucket{Name: bucket})
		return err
	})
	if killed {
		_, err = m.instances[1].ReadBucket(m.requestContext(), bucketAt(bucket))
	}
	if err == nil && m.existing[bucket] == nil {
		m.existing[bucket] = map[string]bool{}
	} else if err != nil && !killed && !fault.Is(err, fault.Conflict) {
		t.Fatalf("CreateBucket(%s) error = %v, want none or %v", bucket, err, fault.Conflict)
	}
}

func (m *accountModel) ChangeLimit(t *rapid.T) {
	limit := rapid.SampledFrom([]int64{1, 2, 4, 7, 300, 10_000}).Draw(t, "limit")
	c := counts.Open(installation.Parts{Table: m.table, Now: m.clock.Now})
	noError(m, c.Set(m.requestContext(), accountID, limits.Consumers, limit))
	m.limit, m.limitChanged = limit, true // a call that has begun may use either limit
}

func (m *accountModel) AdvanceClock(t *rapid.T) {
	if !m.nested {
		m.clock.add(rapid.SampledFrom([]time.Duration{time.Second, time.Hour, 25 * time.Hour}).Draw(t, "time"))
		noError(m, m.engine.Sweep(m.Context()))
	}
}

// RunAction runs a random action.
func (m *accountModel) RunAction(t *rapid.T) {
	switch n := rapid.IntRange(0, 19).Draw(t, "action"); {
	case n < 10:
		m.Create(t)
	case n < 14:
		m.Delete(t)
	case n < 16:
		m.ToggleBucket(t)
	case n < 18:
		m.ChangeLimit(t)
	default:
		m.AdvanceClock(t)
	}
}

// check compares the number of listed consumers in each bucket with the model. The counters may be too high, but never
// too low: the account's bound must cover what is allocated, which must cover the existing consumers.
func (m *accountModel) check(t *rapid.T) {
	for bucket, names := range m.existing {
		got, _, total, err := m.keys.ListConsumers(m.requestContext(), bucketAt(bucket), keys.Filter{}, all, keys.Include{})
		noError(m, err)
		if total != len(names) || len(got) != len(names) {
			t.Fatalf("ListConsumers(%s) = %d consumers, total %d, want %v", bucket, len(got), total, names)
		}
	}
	status, err := counts.Open(installation.Parts{Table: m.table, Now: m.clock.Now}).List(m.Context(), accountID)
	noError(m, err)
	bound := status[slices.IndexFunc(status, func(s counts.Status) bool { return s.Name == limits.Consumers.Name })].Bound
	if allocated := m.allocated(t); bound >= 0 && (bound < allocated || allocated < int64(m.count())) {
		t.Fatalf("%d consumers, %d allocated, bound of the account %d, want them in ascending order",
			m.count(), allocated, bound)
	}
}

// allocated returns the sum of counted consumers and unused capacity in the shards of all existing buckets.
func (m *accountModel) allocated(t *rapid.T) (sum int64) {
	generation := map[string]string{} // the newest generation of each bucket
	totals := map[string]int64{}
	for key, item := range m.memory.Items() {
		var r struct {
			Capacity   int64 `dynamodbav:"room"`
			Consumers  int64 `dynamodbav:"consumers"`
			Generation int64 `dynamodbav:"generation"`
		}
		switch {
		case strings.HasPrefix(key.PK, "consumer-count#"):
			noError(m, store.Decode(item, &r))
			if r.Capacity < 0 || r.Consumers < 0 {
				t.Fatalf("%v counts %d consumers and capacity %d, want neither negative", key, r.Consumers, r.Capacity)
			}
			totals[key.PK] += r.Capacity + r.Consumers
		case strings.HasPrefix(key.PK, "buckets#"):
			noError(m, store.Decode(item, &r))
			generation[strings.TrimPrefix(key.SK, "bucket#")] = fmt.Sprint(r.Generation)
		}
	}
	for bucket := range m.existing {
		for pk, n := range totals {
			if strings.HasSuffix(pk, "/"+bucket+"/"+generation[bucket]) {
				sum += n
			}
		}
	}
	return sum
}

// shardOf returns the number of the shard that counts a consumer, from 0 to 15.
func shardOf(consumer string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(consumer))
	return h.Sum32() % 16
}

// collidingNames returns names of consumers that belong to only two shards of a bucket, so that concurrent changes of
// them often collide.
func collidingNames() (names []string) {
	for i := range 400 {
		if name := fmt.Sprint("c", i); shardOf(name) < 2 {
			names = append(names, name)
		}
	}
	return names
}

var bucketNames = []string{"first-bucket", "second-bucket", "third-bucket"}

// TestConsumerLimitMatchesModel creates and deletes consumers in several buckets, and changes the limit. A second
// process can act in the middle of a change, or the first process is killed before or after a transaction. No creation
// may exceed the limit, no creation below the limit may be refused, and no counter may be too low. If the limit changes
// during a creation, both results are allowed.
func TestConsumerLimitMatchesModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		backend := &disturbedBackend{after: undisturbed}
		fx := newFixtureOver(t, memory.New(), func(b store.Backend) store.Backend { backend.Backend = b; return backend })
		model := &accountModel{fixture: fx, backend: backend, limit: 4, existing: map[string]map[string]bool{}}
		fx.setLimit(t, limits.Consumers, model.limit)
		for _, bucket := range bucketNames[:2] {
			must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: bucket}))
			model.existing[bucket] = map[string]bool{}
		}
		for range 40 {
			model.RunAction(rt)
			model.check(rt)
		}
	})
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

func rotations() []scenario {
	return []scenario{{
		title: "A rotation of the root key",
		text: "100,000 API keys, half of them in a bucket that does not keep the keys' texts. The embedded engine keeps " +
			"its files in memory, so that the disk is not measured. Two clients check keys\n" +
			"before, during and after the rotation. No check uses a cache. A simulated clock skips the hours " +
			"of waiting. The limits are that no key is refused, and that a check reads the table at most once, or twice " +
			"during the rotation.",
		options: "keys=100000",
		run:     rotation,
	}}
}

// batchSize is the number of keys that are created at once.
const batchSize = 40

// stride is the distance between the numbers of the keys or consumers that a client uses one after another.
const stride = 7919

// maxReadsInRotation is the maximum number of reads for one key check while the root key is rotated. maxReadsOutside is
// the maximum at other times.
const maxReadsInRotation, maxReadsOutside = 2, 1

// rotationRun is an installation whose root key is rotated. The benchmark advances its clock.
type rotationRun struct {
	parts       installation.Parts
	clockOffset atomic.Int64
	// clock is locked for reading during each key check, so that the clock is not advanced during a check.
	clock sync.RWMutex
	texts []string              // the texts of the keys
	phase atomic.Pointer[phase] // counts the checks of the current phase
}

// phase has the number of checks in a phase, the number of refused checks, and the maximum number of reads of a check.
type phase struct{ checks, refused, maxReads atomic.Int64 }

// rotatedOwner owns rotatedBuckets. The second bucket does not store the texts of its keys.
var rotatedOwner = auth.Owner{AccountID: "a-1", Account: "demo", Viewer: auth.Principal{Permissions: auth.Full()}}

var rotatedBuckets = []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}}

// rotation rotates the root key of an embedded store while keys are checked, and reports what the checks cost.
func rotation(ctx context.Context, m *measurement) (err error) {
	n := m.Number("keys")
	engine, err := embedded.Open(ctx, embedded.Options{Dir: "engine", FS: vfs.NewMem()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	b := &rotationRun{}
	now := func() time.Time { return time.Now().Add(time.Duration(b.clockOffset.Load())) }
	table := store.New(engine, store.Options{Random: rand.Reader, Now: now})
	b.parts = installation.Parts{
		Table: table, Bucket: blob.NewMemory(now), Key: rootkey.NewFile(filepath.Join(m.Dir, "root.key"), table, now, nil),
		Random: rand.Reader, Now: now, IDs: ids.NewSource(rand.Reader, now), Log: slog.New(slog.DiscardHandler),
	}
	if err := b.fill(ctx, n); err != nil {
		return err
	}
	before, during, after := &phase{}, &phase{}, &phase{}
	b.phase.Store(before)
	trafficCtx, stop := context.WithCancel(ctx)
	defer stop()
	checkers, checkCtx := errgroup.WithContext(trafficCtx)
	for range 2 {
		checkers.Go(func() error { return b.check(checkCtx) })
	}
	if err := fixture.Wait(ctx, time.Second); err != nil {
		return err
	}
	b.phase.Store(during)
	elapsed, err := b.rotate(ctx)
	if err != nil {
		return err
	}
	b.phase.Store(after)
	if err := fixture.Wait(ctx, time.Second); err != nil {
		return err
	}
	stop()
	if err := checkers.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	m.Printf("| %d keys | checks | refused | reads a check at most |\n|---|---:|---:|---:|\n", n)
	for _, row := range []struct {
		name string
		p    *phase
	}{{"before", before}, {"while it is rotated", during}, {"afterwards", after}} {
		m.Printf("| %s | %d | %d | %d |\n", row.name, row.p.checks.Load(), row.p.refused.Load(), row.p.maxReads.Load())
	}
	m.Printf("\nThe steps of the rotation took %.1f s, which is %.0f keys a second.\n", elapsed.Seconds(),
		float64(n)/elapsed.Seconds())
	refused := before.refused.Load() + during.refused.Load() + after.refused.Load()
	if refused > 0 {
		m.Exceeds("%d checks were refused, the limit is 0", refused)
	}
	if during.maxReads.Load() > maxReadsInRotation || before.maxReads.Load() > maxReadsOutside ||
		after.maxReads.Load() > maxReadsOutside {
		m.Exceeds("a check has read the table more than %d times, or more than %d times during the rotation", maxReadsOutside,
			maxReadsInRotation)
	}
	if during.checks.Load() == 0 {
		return errors.New("no key was checked during the rotation: it was too short, use -set keys= with a larger number")
	}
	return nil
}

// requestContext returns a context for a request that is recorded in the audit log.
func (r *rotationRun) requestContext(ctx context.Context) context.Context {
	return audit.WithRequest(ctx, &audit.Request{
		AccountID: rotatedOwner.AccountID, Action: "consumer.update",
		RequestID: r.parts.IDs.UUID(), Time: r.parts.Now(),
	})
}

// fill creates n keys: batchSize keys for each consumer.
func (r *rotationRun) fill(ctx context.Context, n int) error {
	service := keys.Open(r.parts)
	for _, in := range rotatedBuckets {
		if _, err := service.CreateBucket(r.requestContext(ctx), rotatedOwner, in); err != nil {
			return fmt.Errorf("create a bucket: %w", err)
		}
	}
	r.texts = make([]string, n)
	group, fillCtx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for from := 0; from < n; from += batchSize {
		group.Go(func() error {
			at := r.at(from)
			at.Consumer = fmt.Sprintf("c%07d", from)
			if _, err := service.CreateConsumer(r.requestContext(fillCtx), at.BucketLocator,
				keys.NewConsumer{Name: at.Consumer}); err != nil {
				return fmt.Errorf("create a consumer: %w", err)
			}
			created, err := service.CreateKeys(r.requestContext(fillCtx), at, make([]keys.NewKey, min(batchSize, n-from)))
			for i, k := range created {
				r.texts[from+i] = k.Text
			}
			return err
		})
	}
	return group.Wait()
}

// at returns the locator of key i's bucket, without a consumer. batchSize keys are in the first bucket, the next
// batchSize keys in the second, and so on in turn.
func (r *rotationRun) at(i int) keys.ConsumerLocator {
	return keys.ConsumerLocator{BucketLocator: keys.BucketLocator{
		Owner:  rotatedOwner,
		Bucket: rotatedBuckets[i/batchSize%len(rotatedBuckets)].Name,
	}}
}

// check verifies one key after another until the context ends or the root key cannot be read.
func (r *rotationRun) check(ctx context.Context) error {
	verifier := keys.OpenVerifier(r.parts)
	checkOne := func() error {
		r.clock.RLock()
		defer r.clock.RUnlock()
		if _, err := r.parts.Key.Root(ctx); err != nil {
			return err
		}
		var meter store.Meter
		p := r.phase.Load()
		i := int(p.checks.Load()*stride) % len(r.texts)
		_, err := verifier.Verify(store.WithMeter(ctx, &meter),
			keys.BucketRef{AccountID: rotatedOwner.AccountID, Name: r.at(i).Bucket}, r.texts[i])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.checks.Add(1); err != nil {
			p.refused.Add(1)
		}
		reads := int64(meter.Usage().Reads)
		for maxReads := p.maxReads.Load(); reads > maxReads; maxReads = p.maxReads.Load() {
			if p.maxReads.CompareAndSwap(maxReads, reads) {
				break
			}
		}
		return nil
	}
	for {
		if err := checkOne(); err != nil {
			return err
		}
	}
}

// rotate performs a rotation, and advances the clock between its steps. It returns how long the steps took.
func (r *rotationRun) rotate(ctx context.Context) (elapsed time.Duration, err error) {
	rotation := durable.Rotation(r.parts)
	engine, err := durable.Engine(r.parts)
	if err != nil {
		return 0, err
	}
	if _, err := rotation.Start(ctx, "the benchmark"); err != nil {
		return 0, err
	}
	for {
		startedAt := time.Now()
		if err := engine.Sweep(ctx); err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		elapsed += time.Since(startedAt)
		s, err := rotation.Status(ctx)
		if err != nil || s.EndedOn != nil {
			return elapsed, err
		}
		r.clock.Lock()
		r.clockOffset.Add(int64(15 * time.Minute))
		r.clock.Unlock()
	}
}

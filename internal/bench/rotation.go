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

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

func rotations() []scenario {
	return []scenario{{
		title: "A rotation of the root key",
		text: "100,000 API keys, half of them in a bucket that does not keep the keys' texts. The embedded engine keeps its files in memory, so that the disk is not measured. Two clients check keys\n" +
			"before, during and after the rotation. Each check is the first one of its key. A simulated clock skips the hours of waiting. The limits are that no key is refused, and that a check reads the table at most once more than usual.",
		options: "keys=100000",
		run:     rotation,
	}}
}

// portion is the number of keys that a request creates.
const portion = 40

// stride is the distance between keys that are checked in succession.
const stride = 7919

// allowed is how many reads a check may make while the root key is rotated, and usual is the limit before and afterwards.
const allowed, usual = 2, 1

// rotated is an installation whose root key is rotated. The benchmark advances its clock.
type rotated struct {
	parts installation.Parts
	ahead atomic.Int64
	// clock is held for reading while a key is checked, so that the clock is not advanced during a check.
	clock sync.RWMutex
	texts []string
	phase atomic.Pointer[phase] // counts the checks of the current phase
}

// phase counts the checks of a phase, the refused ones, and the most reads of one check.
type phase struct{ checks, refused, most atomic.Int64 }

// rotatedOwner owns the buckets. The second bucket does not keep the texts of its keys.
var rotatedOwner = auth.Owner{AccountID: "a-1", Account: "demo", Viewer: auth.Principal{Permissions: auth.Full()}}

var rotatedBuckets = []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}}

func rotation(ctx context.Context, m *measurement) (err error) {
	n := m.Number("keys")
	engine, err := embedded.Open(ctx, embedded.Options{Dir: "engine", FS: vfs.NewMem()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	b := &rotated{}
	now := func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	table := store.New(engine, store.Options{Random: rand.Reader, Now: now})
	b.parts = installation.Parts{
		Table: table, Bucket: blob.NewMemory(now), Key: rootkey.InFile(filepath.Join(m.Dir, "root.key"), table, now, nil),
		Random: rand.Reader, Now: now, IDs: ids.NewSource(rand.Reader, now), Log: slog.New(slog.DiscardHandler),
	}
	if err := b.fill(ctx, n); err != nil {
		return err
	}
	before, during, after := &phase{}, &phase{}, &phase{}
	b.phase.Store(before)
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	checking, checks := errgroup.WithContext(traffic)
	for range 2 {
		checking.Go(func() error { return b.check(checks) })
	}
	if err := world.Wait(ctx, time.Second); err != nil {
		return err
	}
	b.phase.Store(during)
	renewing, err := b.rotate(ctx)
	if err != nil {
		return err
	}
	b.phase.Store(after)
	if err := world.Wait(ctx, time.Second); err != nil {
		return err
	}
	stop()
	if err := checking.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	m.Printf("| %d keys | checks | refused | reads a check at most |\n|---|---:|---:|---:|\n", n)
	for _, row := range []struct {
		name string
		p    *phase
	}{{"before", before}, {"while it is rotated", during}, {"afterwards", after}} {
		m.Printf("| %s | %d | %d | %d |\n", row.name, row.p.checks.Load(), row.p.refused.Load(), row.p.most.Load())
	}
	m.Printf("\nThe steps of the rotation took %.1f s, which is %.0f keys a second.\n", renewing.Seconds(), float64(n)/renewing.Seconds())
	refused := before.refused.Load() + during.refused.Load() + after.refused.Load()
	if refused > 0 {
		m.Exceeds("%d checks were refused, the limit is 0", refused)
	}
	if during.most.Load() > allowed || before.most.Load() > usual || after.most.Load() > usual {
		m.Exceeds("a check has read the table more than %d times, or more than %d times during the rotation", usual, allowed)
	}
	if during.checks.Load() == 0 {
		return errors.New("no key was checked during the rotation: it was too short, use -set keys= with a larger number")
	}
	return nil
}

func (b *rotated) request(ctx context.Context) context.Context {
	return audit.With(ctx, &audit.Request{AccountID: rotatedOwner.AccountID, Action: "consumer.update", RequestID: b.parts.IDs.UUID(), Time: b.parts.Now()})
}

// fill creates n keys: portion keys for each consumer.
func (b *rotated) fill(ctx context.Context, n int) error {
	service := keys.Open(b.parts)
	for _, in := range rotatedBuckets {
		if _, err := service.CreateBucket(b.request(ctx), rotatedOwner, in); err != nil {
			return fmt.Errorf("create a bucket: %w", err)
		}
	}
	b.texts = make([]string, n)
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for from := 0; from < n; from += portion {
		group.Go(func() error {
			at := b.at(from)
			at.Consumer = fmt.Sprintf("c%07d", from)
			if _, err := service.CreateConsumer(b.request(making), at.BucketAt, keys.NewConsumer{Name: at.Consumer}); err != nil {
				return fmt.Errorf("create a consumer: %w", err)
			}
			made, err := service.CreateKeys(b.request(making), at, make([]keys.NewKey, min(portion, n-from)))
			for i, k := range made {
				b.texts[from+i] = k.Text
			}
			return err
		})
	}
	return group.Wait()
}

// at returns the bucket of key i. The buckets take turns, a portion each.
func (b *rotated) at(i int) keys.ConsumerAt {
	return keys.ConsumerAt{BucketAt: keys.BucketAt{Owner: rotatedOwner, Bucket: rotatedBuckets[i/portion%len(rotatedBuckets)].Name}}
}

// check checks keys until the context ends.
func (b *rotated) check(ctx context.Context) error {
	verifier := keys.OpenVerifier(b.parts)
	one := func() error {
		b.clock.RLock()
		defer b.clock.RUnlock()
		if _, err := b.parts.Key.Root(ctx); err != nil {
			return err
		}
		var meter store.Meter
		p := b.phase.Load()
		i := int(p.checks.Load()*stride) % len(b.texts)
		_, err := verifier.Verify(store.WithMeter(ctx, &meter), keys.BucketRef{AccountID: rotatedOwner.AccountID, Name: b.at(i).Bucket}, b.texts[i])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.checks.Add(1); err != nil {
			p.refused.Add(1)
		}
		reads := int64(meter.Usage().Reads)
		for most := p.most.Load(); reads > most; most = p.most.Load() {
			if p.most.CompareAndSwap(most, reads) {
				break
			}
		}
		return nil
	}
	for {
		if err := one(); err != nil {
			return err
		}
	}
}

// rotate performs a rotation, and returns how long its steps took.
func (b *rotated) rotate(ctx context.Context) (took time.Duration, err error) {
	rotation := durable.Rotation(b.parts)
	engine, err := durable.Engine(b.parts)
	if err != nil {
		return 0, err
	}
	if _, err := rotation.Start(ctx, "the benchmark"); err != nil {
		return 0, err
	}
	for {
		began := time.Now()
		if err := engine.Sweep(ctx); err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		took += time.Since(began)
		s, err := rotation.Status(ctx)
		if err != nil || s.EndedOn != nil {
			return took, err
		}
		b.clock.Lock()
		b.ahead.Add(int64(15 * time.Minute))
		b.clock.Unlock()
	}
}

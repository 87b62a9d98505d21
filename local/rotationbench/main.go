// Command rotationbench rotates the root key of an installation with 100,000 API keys while keys are checked, and prints
// what those checks and the renewal took. It fails when a key was refused, or when a check has made more than one read beside
// the usual one.
//
// What it is not: a measure of the whole rotation, whose hours of waiting are gone through by a clock of its own. Half of the keys are in a
// bucket that has forgotten their texts. This file is all of it; `make bench` runs it.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/program"
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

func main() {
	n := flag.Int("keys", 100_000, "how many API keys there are")
	flag.Parse()
	program.Main(context.Background(), "rotationbench", func(ctx context.Context) error {
		return program.InFolder("rotationbench", func(dir string) error { return run(ctx, dir, *n) })
	})
}

// portion is how many keys a request makes.
const portion = 40

// stride is how far apart keys are that are checked one after the other.
const stride = 7919

// allowed is how many reads a check makes at most while the root key is rotated; usual before and afterwards.
const allowed, usual = 2, 1

// bench is an installation whose time goes as fast as it likes.
type bench struct {
	parts installation.Parts
	ahead atomic.Int64
	// clock is held for reading by who checks a key, so that the root keys are looked at outside of a check.
	clock sync.RWMutex
	texts []string
	// phase has what checks took.
	phase atomic.Pointer[phase]
}

type phase struct{ checks, refused, most atomic.Int64 }

var owner = auth.Owner{AccountID: "a-1", Account: "demo", Viewer: auth.Principal{Permissions: auth.Full()}}

var buckets = []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}}

func run(ctx context.Context, dir string, n int) (err error) {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: "engine", FS: vfs.NewMem()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	b := &bench{}
	now := func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	table := store.New(engine, store.Options{Random: rand.Reader, Now: now})
	b.parts = installation.Parts{
		Table: table, Bucket: blob.NewMemory(now), Key: rootkey.InFile(filepath.Join(dir, "root.key"), table, now, nil),
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
	time.Sleep(time.Second)
	b.phase.Store(during)
	renewing, err := b.rotate(ctx)
	if err != nil {
		return err
	}
	b.phase.Store(after)
	time.Sleep(time.Second)
	stop()
	if err := checking.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Printf("| %d keys | checks | refused | reads a check at most |\n|---|---:|---:|---:|\n", n)
	for _, row := range []struct {
		name string
		p    *phase
	}{{"before", before}, {"while it is rotated", during}, {"afterwards", after}} {
		fmt.Printf("| %s | %d | %d | %d |\n", row.name, row.p.checks.Load(), row.p.refused.Load(), row.p.most.Load())
	}
	fmt.Printf("\nThe steps of the rotation took %.1f s, which is %.0f keys a second.\n", renewing.Seconds(), float64(n)/renewing.Seconds())
	refused := before.refused.Load() + during.refused.Load() + after.refused.Load()
	if refused > 0 || during.most.Load() > allowed || before.most.Load() > usual || after.most.Load() > usual || during.checks.Load() == 0 {
		return errors.New("a key was refused, or a check has read more than it may")
	}
	return nil
}

func (b *bench) request(ctx context.Context) context.Context {
	return audit.With(ctx, &audit.Request{AccountID: owner.AccountID, Action: "consumer.update", RequestID: b.parts.IDs.UUID(), Time: b.parts.Now()})
}

// fill makes the keys: a hundred requests' worth for each consumer.
func (b *bench) fill(ctx context.Context, n int) error {
	service := keys.Open(b.parts)
	for _, in := range buckets {
		if _, err := service.CreateBucket(b.request(ctx), owner, in); err != nil {
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

// at is the bucket of a key: they take turns by portions.
func (b *bench) at(i int) keys.ConsumerAt {
	return keys.ConsumerAt{BucketAt: keys.BucketAt{Owner: owner, Bucket: buckets[i/portion%len(buckets)].Name}}
}

// check checks keys until the context ends.
func (b *bench) check(ctx context.Context) error {
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
		_, err := verifier.Verify(store.WithMeter(ctx, &meter), keys.BucketRef{AccountID: owner.AccountID, Name: b.at(i).Bucket}, b.texts[i])
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

// rotate has a rotation come to its end, and gives how long its steps took.
func (b *bench) rotate(ctx context.Context) (took time.Duration, err error) {
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

package serving_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/serving"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// artifacts has an artifact for every name, and counts the calls of Get.
type artifacts struct {
	loads atomic.Int64
	err   error
}

func (a *artifacts) Get(_ context.Context, name string) (*project.Artifact, error) {
	a.loads.Add(1)
	if a.err != nil {
		return nil, a.err
	}
	return &project.Artifact{Format: project.ArtifactFormat, Identity: project.Identity{BuildID: name}}, nil
}

// backend is a table that counts reads. Its reads can fail or be slow.
type backend struct {
	*memory.Backend
	reads       atomic.Int64
	unavailable atomic.Bool
	delay       time.Duration // the delay before the read
	delayAfter  time.Duration // the delay after the read
}

func (b *backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	time.Sleep(b.delay)
	if b.unavailable.Load() {
		return nil, errors.New("the table is unavailable")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	items, err := b.Backend.Read(ctx, keys)
	time.Sleep(b.delayAfter)
	return items, err
}

// fixture is a Resolver with its dependencies.
type fixture struct {
	t         *testing.T
	backend   *backend
	table     *store.Table
	artifacts *artifacts
	resolver  *serving.Resolver
}

// name is the name of the deployment whose record a fixture stores.
const name = "hello-main-0a1b2c3"

// withFixture calls f with a new fixture, in a synctest bubble.
func withFixture(t *testing.T, f func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		fx := &fixture{t: t, backend: &backend{Backend: memory.New()}, artifacts: &artifacts{}}
		fx.table = storetest.NewWithBackend(t, fx.backend, storetest.Clock(time.Now))
		fx.resolver = serving.New(serving.Options{
			Table: fx.table, Artifacts: fx.artifacts, Domain: "localhost", Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		f(fx)
		synctest.Wait()
	})
}

// serve stores the record of the deployment, which serves this artifact. "" means that nothing was built yet.
func (fx *fixture) serve(artifact string) {
	fx.t.Helper()
	r := deployments.Record{Name: name, Latest: 1}
	if artifact != "" {
		r.Served = &deployments.Served{Number: 1, BuildID: artifact, Artifact: artifact}
	}
	if err := fx.table.Commit(fx.t.Context(), store.Put(deployments.Key(name), r)); err != nil {
		fx.t.Fatal(err)
	}
}

// delete marks the deployment as deleted.
func (fx *fixture) delete() {
	fx.t.Helper()
	if err := fx.table.Commit(fx.t.Context(),
		store.Put(deployments.Key(name), deployments.Record{Name: name, DeletedOn: new(time.Now())})); err != nil {
		fx.t.Fatal(err)
	}
}

// wantServed checks which artifact is served, "" for no deployment.
func (fx *fixture) wantServed(artifact string) {
	fx.t.Helper()
	d, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost")
	switch {
	case artifact == "" && !fault.Is(err, fault.NotFound):
		fx.t.Errorf("Resolve() = %s, %v, want NotFound", describe(d), err)
	case artifact != "" && (err != nil || d.Digest != artifact || d.Artifact.Identity.BuildID != artifact):
		fx.t.Errorf("Resolve() = %s, %v, want the digest and the build %s", describe(d), err, artifact)
	}
}

// describe returns a text about a deployment for messages.
func describe(d *gateway.Deployment) string {
	if d == nil {
		return "no deployment"
	}
	return fmt.Sprintf("digest %s, build %s, format %d", d.Digest, d.Artifact.Identity.BuildID, d.Artifact.Format)
}

// TestUnknownHostsDoNotEvictDeployments resolves more unknown hosts than the
// cache has entries, and checks that a served artifact is not loaded again.
func TestUnknownHostsDoNotEvictDeployments(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.serve("a")
		fx.wantServed("a")
		for i := range 10_000 {
			if _, err := fx.resolver.Resolve(fx.t.Context(), fmt.Sprintf("made-up-%07x.localhost", i)); !fault.Is(err,
				fault.NotFound) {
				t.Fatalf("Resolve(unknown host) error = %v, want NotFound", err)
			}
			if i%1000 == 0 {
				fx.wantServed("a")
			}
		}
		fx.wantServed("a")
		if n := fx.artifacts.loads.Load(); n != 1 {
			t.Errorf("loads of the artifact = %d, want 1", n)
		}
	})
}

func TestHostsWithoutADeploymentAreNotFound(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.serve("")
		for _, host := range []string{
			"", "localhost", "hello.localhost", name, name + ".example.com", name + ".sub.localhost", "x." + name + ".localhost",
			"hello-main-0A1B2C3.localhost", "hello_main-0a1b2c3.localhost", "127.0.0.1",
			"other-main-0a1b2c3.localhost", name + ".localhost", strings.Repeat("a", 51) + "-main-0a1b2c3.localhost",
		} {
			if _, err := fx.resolver.Resolve(fx.t.Context(), host); !fault.Is(err, fault.NotFound) {
				t.Errorf("Resolve(%q) error = %v, want NotFound", host, err)
			}
		}
		if n := fx.backend.reads.Load(); n != 2 {
			t.Errorf("reads = %d, want 2, because invalid names are not looked up", n)
		}
	})
}

func TestCachedResolveReadsNothing(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.serve("one")
		for range 100 {
			fx.wantServed("one")
		}
		if reads, loads := fx.backend.reads.Load(), fx.artifacts.loads.Load(); reads != 1 || loads != 1 {
			t.Errorf("reads = %d, loads = %d, want 1 each", reads, loads)
		}
		time.Sleep(time.Hour)
		fx.wantServed("one")
		if reads, loads := fx.backend.reads.Load(), fx.artifacts.loads.Load(); reads != 2 || loads != 1 {
			t.Errorf("after an hour: reads = %d, loads = %d, want 2 and 1", reads, loads)
		}
	})
}

// TestChangesApplyWithinStaleness checks that a new artifact, a deletion and another new artifact apply when Staleness
// has passed since the change. The first change is made at different times after the last refresh.
func TestChangesApplyWithinStaleness(t *testing.T) {
	for _, since := range []int{0, 100, 499, 500, 501, 750, 999, 1000, 1001, 5000} {
		t.Run(fmt.Sprint(since, " ms after the refresh"), func(t *testing.T) {
			withFixture(t, func(fx *fixture) {
				fx.backend.delay = 5 * time.Millisecond
				fx.serve("one")
				fx.wantServed("one")
				time.Sleep(time.Duration(since) * time.Millisecond)
				fx.serve("two")
				time.Sleep(deployments.Staleness)
				fx.wantServed("two")
				fx.delete()
				time.Sleep(deployments.Staleness)
				fx.wantServed("")
				fx.serve("three")
				time.Sleep(deployments.Staleness)
				fx.wantServed("three")
			})
		})
	}
}

// TestChangesApplyUnderLoad checks changes while a host is resolved continuously,
// so that refreshes run in the background.
func TestChangesApplyUnderLoad(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.backend.delay = 20 * time.Millisecond
		for n := range 20 {
			artifact := fmt.Sprint(n)
			fx.serve(artifact)
			deadline := time.Now().Add(deployments.Staleness)
			for time.Now().Before(deadline) {
				if _, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost"); err != nil {
					t.Fatalf("Resolve() under load: error = %v, want none", err)
				}
				time.Sleep(7 * time.Millisecond)
			}
			fx.wantServed(artifact)
		}
		if reads, limit := fx.backend.reads.Load(), int64(2*20+2); reads > limit {
			t.Errorf("reads in 20 s = %d, want at most %d", reads, limit)
		}
	})
}

// TestAgeCountsFromTheStartOfTheRead checks that the age of a cached result counts
// from the start of the read: a change during a slow read applies to the next request.
func TestAgeCountsFromTheStartOfTheRead(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.backend.delayAfter = 3 * time.Second
		fx.serve("one")
		go func() {
			time.Sleep(time.Second)
			fx.serve("two")
		}()
		fx.wantServed("one")
		fx.wantServed("two")
	})
}

// TestReadOutlivesItsRequest checks that a read continues after its request has
// ended: a read for which other requests wait, and a read in the background.
func TestReadOutlivesItsRequest(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.backend.delay = 100 * time.Millisecond
		fx.serve("one")
		first, disconnect := context.WithCancel(fx.t.Context())
		go func() { _, _ = fx.resolver.Resolve(first, name+".localhost") }()
		time.Sleep(10 * time.Millisecond)
		go fx.wantServed("one")
		time.Sleep(10 * time.Millisecond)
		disconnect()
		time.Sleep(deployments.Staleness * 3 / 4)
		fx.serve("two")
		second, disconnect := context.WithCancel(fx.t.Context())
		if _, err := fx.resolver.Resolve(second, name+".localhost"); err != nil {
			t.Errorf("Resolve() by the second client: error = %v, want none", err)
		}
		disconnect()
		time.Sleep(150 * time.Millisecond)
		fx.wantServed("two")
	})
}

func TestDeploymentNameLengthIsLimited(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		for chars, want := range map[int]bool{63: true, 64: false} {
			host := strings.Repeat("a", chars-13) + "-main-0a1b2c3.localhost"
			if got := fx.resolver.Owns(host); got != want {
				t.Errorf("Owns(host with a deployment's name of %d characters) = %t, want %t", chars, got, want)
			}
		}
	})
}

func TestConcurrentRequestsShareARead(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.backend.delay = time.Second / 10
		fx.serve("one")
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { fx.wantServed("one") })
		}
		wg.Wait()
		if reads := fx.backend.reads.Load(); reads != 1 {
			t.Errorf("reads = %d, want 1", reads)
		}
	})
}

func TestCachedDeploymentIsServedDuringOutage(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.serve("one")
		fx.wantServed("one")
		fx.backend.unavailable.Store(true)
		for range 9 {
			time.Sleep(time.Minute)
			fx.wantServed("one")
		}
		time.Sleep(2 * time.Minute)
		if _, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("Resolve(%s) after 11 minutes of outage: error = %v, want an error other than NotFound", name, err)
		}
		if _, err := fx.resolver.Resolve(fx.t.Context(), "other-main-0a1b2c3.localhost"); err == nil ||
			fault.Is(err, fault.NotFound) {
			t.Errorf("Resolve(unknown host) during the outage: error = %v, want an error other than NotFound", err)
		}
		fx.backend.unavailable.Store(false)
		time.Sleep(deployments.Staleness)
		fx.wantServed("one")
	})
}

// TestOutageCostsFewReads checks that many requests cause few reads while the table is not available.
func TestOutageCostsFewReads(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.backend.unavailable.Store(true)
		for range 100 {
			if _, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost"); err == nil {
				t.Fatal("Resolve() without a table: error = nil, want an error")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if reads := fx.backend.reads.Load(); reads > 3 {
			t.Errorf("reads in a second = %d, want at most 3", reads)
		}
	})
}

func TestUnloadableArtifactIsAnError(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.artifacts.err = errors.New("the bucket is unavailable")
		fx.serve("one")
		if _, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("Resolve() with an unloadable artifact: error = %v, want an error other than NotFound", err)
		}
	})
}

// TestArtifactOfOtherFormatIsReturned checks that the gateway receives the format and
// identity of an artifact that it can't read, so that its problem can say what to do.
func TestArtifactOfOtherFormatIsReturned(t *testing.T) {
	for _, format := range []int{project.OldestFormat - 1, project.ArtifactFormat + 1} {
		withFixture(t, func(fx *fixture) {
			fx.artifacts.err = fmt.Errorf("load: %w", &project.FormatError{Format: format})
			fx.serve("one")
			d, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost")
			if err != nil || d.Artifact.Format != format || d.Artifact.Identity.BuildID != "one" {
				t.Errorf("Resolve() = %s, %v, want format %d of the build one", describe(d), err, format)
			}
		})
	}
}

// TestPreviousArtifactIsServedAfterNewerReleaseBuild checks that the previous artifact is still served if only a newer
// release can read the new one, until another build replaces it. A new artifact of a format that is too old replaces
// the previous artifact.
func TestPreviousArtifactIsServedAfterNewerReleaseBuild(t *testing.T) {
	for format, want := range map[int]string{project.ArtifactFormat + 1: "one", project.OldestFormat - 1: "two"} {
		withFixture(t, func(fx *fixture) {
			fx.serve("one")
			resolved := func() string {
				t.Helper()
				d, err := fx.resolver.Resolve(fx.t.Context(), name+".localhost")
				if err != nil {
					t.Fatal(err)
				}
				return d.Artifact.Identity.BuildID
			}
			if got := resolved(); got != "one" {
				t.Fatalf("Resolve(): build = %s, want one", got)
			}
			fx.artifacts.err = &project.FormatError{Format: format}
			fx.serve("two")
			for range 3 {
				time.Sleep(maxStaleForTests)
				if got := resolved(); got != want {
					t.Errorf("Resolve() with an artifact of format %d: build = %s, want %s", format, got, want)
				}
			}
			fx.artifacts.err = nil
			fx.serve("three")
			time.Sleep(maxStaleForTests)
			if got := resolved(); got != "three" {
				t.Errorf("Resolve() after a newer build: build = %s, want three", got)
			}
		})
	}
}

// maxStaleForTests is longer than the time for which a cached artifact is served while refreshes fail.
const maxStaleForTests = 11 * time.Minute

func TestUnknownHostsDoNotFillTheCache(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.serve("one")
		for n := range 10_000 {
			if _, err := fx.resolver.Resolve(fx.t.Context(), fmt.Sprintf("made-up-%07x.localhost", n)); !fault.Is(err,
				fault.NotFound) {
				t.Fatalf("Resolve(unknown host) error = %v, want NotFound", err)
			}
		}
		if n := fx.resolver.EntryCount(); n > 4096 {
			t.Errorf("EntryCount() = %d, want at most 4096", n)
		}
		fx.wantServed("one")
	})
}

// domains has the names of deployments by their custom domains. If the name is "unavailable", the lookup fails.
type domains map[string]string

func (d domains) Deployment(_ context.Context, host string) (string, error) {
	switch name := d[host]; name {
	case "":
		return "", fault.Missing("host")
	case "unavailable":
		return "", errors.New("the table is unavailable")
	default:
		return name, nil
	}
}

func TestCustomDomainServesItsDeployment(t *testing.T) {
	withFixture(t, func(fx *fixture) {
		fx.serve("one")
		fx.resolver = serving.New(serving.Options{
			Table: fx.table, Artifacts: fx.artifacts, Domain: "localhost", Now: time.Now, Log: slog.New(slog.DiscardHandler),
			// The last entry has no effect: a deployment's own host can't be a custom domain.
			Domains: domains{
				"api.example.com": name, "old.example.com": "gone-main-0a1b2c3", "down.example.com": "unavailable",
				name + ".localhost": "unavailable",
			},
		})
		fx.wantServed("one")
		if d, err := fx.resolver.Resolve(fx.t.Context(), "api.example.com"); err != nil || d.Digest != "one" {
			t.Errorf("Resolve(api.example.com) = %s, %v, want the digest one", describe(d), err)
		}
		for _, host := range []string{"old.example.com", "stranger.example.com"} {
			if d, err := fx.resolver.Resolve(fx.t.Context(), host); !fault.Is(err, fault.NotFound) {
				t.Errorf("Resolve(%s) = %s, %v, want NotFound", host, describe(d), err)
			}
		}
		if d, err := fx.resolver.Resolve(fx.t.Context(), "down.example.com"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("Resolve(down.example.com) = %s, %v, want an error other than NotFound", describe(d), err)
		}
	})
}

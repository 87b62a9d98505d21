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

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/serving"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// artifacts has an artifact for every name, and counts how often it is asked.
type artifacts struct {
	loads atomic.Int64
	err   error
}

func (s *artifacts) Get(_ context.Context, name string) (*project.Artifact, error) {
	s.loads.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	return &project.Artifact{Format: project.ArtifactFormat, Identity: project.Identity{BuildID: name}}, nil
}

// backend is a table that can be away, slow, and counted.
type backend struct {
	*memory.Backend
	reads atomic.Int64
	away  atomic.Bool
	slow  time.Duration
	late  time.Duration // behind the read
}

func (b *backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	time.Sleep(b.slow)
	if b.away.Load() {
		return nil, errors.New("the table is away")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	items, err := b.Backend.Read(ctx, keys)
	time.Sleep(b.late)
	return items, err
}

type world struct {
	t         *testing.T
	backend   *backend
	table     *store.Table
	artifacts *artifacts
	resolver  *serving.Resolver
}

const name = "hello-main-0a1b2c3"

func bubble(t *testing.T, f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &world{t: t, backend: &backend{Backend: memory.New()}, artifacts: &artifacts{}}
		w.table = storetest.Over(t, w.backend, storetest.Clock(time.Now))
		w.resolver = serving.New(serving.Options{
			Table: w.table, Artifacts: w.artifacts, Domain: "localhost", Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		f(w)
		synctest.Wait()
	})
}

// serve stores a deployment's record; "" means that nothing was built yet.
func (w *world) serve(artifact string) {
	w.t.Helper()
	r := deployments.Record{Name: name, Latest: 1}
	if artifact != "" {
		r.Served = &deployments.Served{Number: 1, BuildID: artifact, Artifact: artifact}
	}
	if err := w.table.Commit(w.t.Context(), store.Put(deployments.Key(name), r)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete() {
	w.t.Helper()
	if err := w.table.Commit(w.t.Context(), store.Put(deployments.Key(name), deployments.Record{Name: name, DeletedOn: new(time.Now())})); err != nil {
		w.t.Fatal(err)
	}
}

// want checks what is served, "" for nothing.
func (w *world) want(artifact string) {
	w.t.Helper()
	d, err := w.resolver.Resolve(w.t.Context(), name+".localhost")
	switch {
	case artifact == "" && !fault.Is(err, fault.NotFound):
		w.t.Errorf("served %+v, error %v, want nothing", d, err)
	case artifact != "" && (err != nil || d.Digest != artifact || d.Artifact.Identity.BuildID != artifact):
		w.t.Errorf("served %+v, error %v, want %s", d, err, artifact)
	}
}

// TestMadeUpHostsPushOutNoDeployment has more hosts asked for than are
// remembered: what is served is still not loaded again.
func TestMadeUpHostsPushOutNoDeployment(t *testing.T) {
	bubble(t, func(w *world) {
		w.serve("a")
		w.want("a")
		for i := range 10_000 {
			if _, err := w.resolver.Resolve(w.t.Context(), fmt.Sprintf("made-up-%07x.localhost", i)); !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				w.want("a")
			}
		}
		w.want("a")
		if n := w.artifacts.loads.Load(); n != 1 {
			t.Errorf("%d loads of the artifact, want 1", n)
		}
	})
}

func TestHostsWithoutADeploymentAreNotFound(t *testing.T) {
	bubble(t, func(w *world) {
		w.serve("")
		for _, host := range []string{
			"", "localhost", "hello.localhost", name, name + ".example.com", name + ".sub.localhost", "x." + name + ".localhost",
			"hello-main-0A1B2C3.localhost", "hello_main-0a1b2c3.localhost", "127.0.0.1",
			"other-main-0a1b2c3.localhost", name + ".localhost", strings.Repeat("a", 51) + "-main-0a1b2c3.localhost",
		} {
			if _, err := w.resolver.Resolve(w.t.Context(), host); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", host, err)
			}
		}
		if n := w.backend.reads.Load(); n != 2 {
			t.Errorf("%d reads, want 2: names that no deployment has need none", n)
		}
	})
}

func TestWarmResolveReadsNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.serve("one")
		for range 100 {
			w.want("one")
		}
		if reads, loads := w.backend.reads.Load(), w.artifacts.loads.Load(); reads != 1 || loads != 1 {
			t.Errorf("%d reads and %d loads, want 1 each", reads, loads)
		}
		time.Sleep(time.Hour)
		w.want("one")
		if reads, loads := w.backend.reads.Load(), w.artifacts.loads.Load(); reads != 2 || loads != 1 {
			t.Errorf("an hour later: %d reads and %d loads, want 2 and 1", reads, loads)
		}
	})
}

// TestChangesAreSeenWithinStaleness changes what is served at any moment after
// the last look.
func TestChangesAreSeenWithinStaleness(t *testing.T) {
	for _, since := range []int{0, 100, 499, 500, 501, 750, 999, 1000, 1001, 5000} {
		t.Run(fmt.Sprint(since), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.backend.slow = 5 * time.Millisecond
				w.serve("one")
				w.want("one")
				time.Sleep(time.Duration(since) * time.Millisecond)
				w.serve("two")
				time.Sleep(deployments.Staleness)
				w.want("two")
				w.delete()
				time.Sleep(deployments.Staleness)
				w.want("")
				w.serve("three")
				time.Sleep(deployments.Staleness)
				w.want("three")
			})
		})
	}
}

// TestChangesAreSeenByABusyGateway asks all the time, so that looks happen in
// the background.
func TestChangesAreSeenByABusyGateway(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.slow = 20 * time.Millisecond
		for n := range 20 {
			artifact := fmt.Sprint(n)
			w.serve(artifact)
			deadline := time.Now().Add(deployments.Staleness)
			for time.Now().Before(deadline) {
				if _, err := w.resolver.Resolve(w.t.Context(), name+".localhost"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(7 * time.Millisecond)
			}
			w.want(artifact)
		}
		if reads, most := w.backend.reads.Load(), int64(2*20+2); reads > most {
			t.Errorf("%d reads in 20 s, want at most %d", reads, most)
		}
	})
}

// TestSlowReadIsAsOldAsItsBegin: what changes while it goes on is seen all the same.
func TestSlowReadIsAsOldAsItsBegin(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.late = 3 * time.Second
		w.serve("one")
		go func() {
			time.Sleep(time.Second)
			w.serve("two")
		}()
		w.want("one")
		w.want("two")
	})
}

// TestReadDoesNotEndWithWhoAsks: neither where others wait for it, nor beside a request.
func TestReadDoesNotEndWithWhoAsks(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.slow = 100 * time.Millisecond
		w.serve("one")
		first, leave := context.WithCancel(w.t.Context())
		go func() { _, _ = w.resolver.Resolve(first, name+".localhost") }()
		time.Sleep(10 * time.Millisecond)
		go w.want("one")
		time.Sleep(10 * time.Millisecond)
		leave()
		time.Sleep(deployments.Staleness * 3 / 4)
		w.serve("two")
		second, leave := context.WithCancel(w.t.Context())
		if _, err := w.resolver.Resolve(second, name+".localhost"); err != nil {
			t.Error(err)
		}
		leave()
		time.Sleep(150 * time.Millisecond)
		w.want("two")
	})
}

func TestDeploymentsNameIsALabel(t *testing.T) {
	bubble(t, func(w *world) {
		for chars, want := range map[int]bool{63: true, 64: false} {
			if host := strings.Repeat("a", chars-13) + "-main-0a1b2c3.localhost"; w.resolver.Owns(host) != want {
				t.Errorf("%d characters: not %v", chars, want)
			}
		}
	})
}

func TestConcurrentRequestsLookOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.slow = time.Second / 10
		w.serve("one")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { w.want("one") })
		}
		all.Wait()
		if reads := w.backend.reads.Load(); reads != 1 {
			t.Errorf("%d reads, want 1", reads)
		}
	})
}

func TestKnownDeploymentIsServedOnWhileTheTableIsAway(t *testing.T) {
	bubble(t, func(w *world) {
		w.serve("one")
		w.want("one")
		w.backend.away.Store(true)
		for range 9 {
			time.Sleep(time.Minute)
			w.want("one")
		}
		time.Sleep(2 * time.Minute)
		if _, err := w.resolver.Resolve(w.t.Context(), name+".localhost"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("after so long nobody knows any more: %v", err)
		}
		if _, err := w.resolver.Resolve(w.t.Context(), "other-main-0a1b2c3.localhost"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("an unknown host: %v", err)
		}
		w.backend.away.Store(false)
		time.Sleep(deployments.Staleness)
		w.want("one")
	})
}

// TestOutageCostsFewReads has requests go on while the table is away: not each
// of them may wait for it.
func TestOutageCostsFewReads(t *testing.T) {
	bubble(t, func(w *world) {
		w.backend.away.Store(true)
		for range 100 {
			if _, err := w.resolver.Resolve(w.t.Context(), name+".localhost"); err == nil {
				t.Fatal("an answer without a table")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if reads := w.backend.reads.Load(); reads > 3 {
			t.Errorf("%d reads in a second, want at most 3", reads)
		}
	})
}

func TestArtifactThatCannotBeLoadedIsNoAnswer(t *testing.T) {
	bubble(t, func(w *world) {
		w.artifacts.err = errors.New("the bucket is away")
		w.serve("one")
		if _, err := w.resolver.Resolve(w.t.Context(), name+".localhost"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("error %v", err)
		}
	})
}

// TestArtifactOfAnotherFormatIsGivenAsSuch lets the gateway say what to do.
func TestArtifactOfAnotherFormatIsGivenAsSuch(t *testing.T) {
	for _, format := range []int{project.OldestFormat - 1, project.ArtifactFormat + 1} {
		bubble(t, func(w *world) {
			w.artifacts.err = fmt.Errorf("load: %w", &project.FormatError{Format: format})
			w.serve("one")
			d, err := w.resolver.Resolve(w.t.Context(), name+".localhost")
			if err != nil || d.Artifact.Format != format || d.Artifact.Identity.BuildID != "one" {
				t.Errorf("deployment %+v, error %v", d, err)
			}
		})
	}
}

// TestWhatWasServedIsServedOnWhereANewerReleaseHasBuilt something else, for as long as it takes until that
// is another thing again; one that is too old is not what was meant.
func TestWhatWasServedIsServedOnWhereANewerReleaseHasBuilt(t *testing.T) {
	for format, want := range map[int]string{project.ArtifactFormat + 1: "one", project.OldestFormat - 1: "two"} {
		bubble(t, func(w *world) {
			w.serve("one")
			resolved := func() string {
				t.Helper()
				d, err := w.resolver.Resolve(w.t.Context(), name+".localhost")
				if err != nil {
					t.Fatal(err)
				}
				return d.Artifact.Identity.BuildID
			}
			if got := resolved(); got != "one" {
				t.Fatalf("it serves %s", got)
			}
			w.artifacts.err = &project.FormatError{Format: format}
			w.serve("two")
			for range 3 {
				time.Sleep(maxStaleForTests)
				if got := resolved(); got != want {
					t.Errorf("beside format %d it serves %s, want %s", format, got, want)
				}
			}
			w.artifacts.err = nil
			w.serve("three")
			time.Sleep(maxStaleForTests)
			if got := resolved(); got != "three" {
				t.Errorf("later it serves %s", got)
			}
		})
	}
}

// maxStaleForTests is longer than anything is served on for another reason.
const maxStaleForTests = 11 * time.Minute

func TestMadeUpHostsDoNotFillTheMemory(t *testing.T) {
	bubble(t, func(w *world) {
		w.serve("one")
		for n := range 10_000 {
			if _, err := w.resolver.Resolve(w.t.Context(), fmt.Sprintf("made-up-%07x.localhost", n)); !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
		}
		if n := w.resolver.Known(); n > 4096 {
			t.Errorf("%d hosts are remembered", n)
		}
		w.want("one")
	})
}

// domains are custom domains that lead to deployments.
type domains map[string]string

func (d domains) Deployment(_ context.Context, host string) (string, error) {
	switch name := d[host]; name {
	case "":
		return "", fault.Missing("host")
	case "away":
		return "", errors.New("the table is away")
	default:
		return name, nil
	}
}

func TestCustomDomainServesItsDeployment(t *testing.T) {
	bubble(t, func(w *world) {
		w.serve("one")
		w.resolver = serving.New(serving.Options{
			Table: w.table, Artifacts: w.artifacts, Domain: "localhost", Now: time.Now, Log: slog.New(slog.DiscardHandler),
			// Nobody's custom domain is a deployment's own host.
			Domains: domains{"api.example.com": name, "old.example.com": "gone-main-0a1b2c3", "away.example.com": "away", name + ".localhost": "away"},
		})
		w.want("one")
		if d, err := w.resolver.Resolve(w.t.Context(), "api.example.com"); err != nil || d.Digest != "one" {
			t.Errorf("served %+v, %v", d, err)
		}
		for _, host := range []string{"old.example.com", "stranger.example.com"} {
			if d, err := w.resolver.Resolve(w.t.Context(), host); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s serves %+v, %v", host, d, err)
			}
		}
		if d, err := w.resolver.Resolve(w.t.Context(), "away.example.com"); err == nil || fault.Is(err, fault.NotFound) {
			t.Errorf("served %+v, %v, want that nobody knows", d, err)
		}
	})
}

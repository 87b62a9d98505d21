package rotation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// disturbedBucket is the bucket of a worker. The simulation can make its calls fail.
type disturbedBucket struct {
	*blob.Memory
	w *operationtest.Worker
	s *simulatedInstallation
}

func (d disturbedBucket) Get(
	ctx context.Context, key, etag string, limit int64,
) (r io.ReadCloser, o blob.Object, err error) {
	err = d.w.Call(ctx, "get "+key, func() (err error) {
		r, o, err = d.Memory.Get(ctx, key, etag, limit)
		return err
	})
	return r, o, err
}

func (d disturbedBucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	defer d.s.changes.Add(1)
	return d.w.Call(ctx, "replace "+key, func() error { return d.Memory.Replace(ctx, key, etag, body) })
}

func (d disturbedBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		if err := d.w.Call(ctx, "list "+prefix, func() error { return nil }); err != nil {
			yield(blob.Object{}, err)
			return
		}
		for o, err := range d.Memory.List(ctx, prefix) {
			if !yield(o, err) {
				return
			}
		}
	}
}

// simulatedInstallation is an installation with a rotation. Any call of the rotation can fail.
// In some simulations a client replaces the text of one key meanwhile, and revokes another key.
type simulatedInstallation struct {
	keys   *rootkeytest.KMS
	bucket *blob.Memory
	// longRunning is a process that started before the rotation, and reads the root keys once per maxAge.
	longRunning installation.Parts
	// valid has the texts that must be accepted at any time, and revoked the texts that
	// must be refused. changedIDs has the ids of keys that are changed during the rotation,
	// and changedTexts has their texts before these changes.
	valid, revoked, changedIDs, changedTexts []string
	tunnelToken                              string
	artifact                                 []byte // sealed under the first root key
	// changes counts replacements of objects and transactions, including failed ones. lastChecked has this count and the
	// minute at the last check.
	changes     atomic.Int64
	lastChecked string
}

func (s *simulatedInstallation) parts(
	table *store.Table, bucket installation.Bucket, random io.Reader, now func() time.Time,
) installation.Parts {
	return installation.Parts{
		Config: config.Config{Relay: "https://relay.test"}, Table: table, Bucket: bucket,
		Key:    rootkey.New(s.keys, "key", table, now),
		Random: random, Now: now, IDs: ids.NewSource(random, now), Log: slog.New(slog.DiscardHandler),
	}
}

func (s *simulatedInstallation) service(p installation.Parts) *rotation.Service {
	sealer := p.Sealer()
	return rotation.Open(p, slices.Concat(keys.RotatedValues(p), tunnels.RotatedValues(p)), artifacts.Prefix(),
		func(ctx context.Context, key string) (renewed, ok bool, err error) {
			return artifacts.Renew(ctx, p.Bucket, sealer, key, func(context.Context, string) (bool, error) { return true, nil })
		})
}

func request(ctx context.Context, id string) context.Context {
	return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
		AccountID: "a-1", Action: "consumer.update",
		Time: storetest.Epoch, RequestID: id,
	}))
}

const (
	artifactName    = "one/0123456789"
	artifactContext = "artifact/" + artifactName
)

// setUp fills the installation, and begins the rotation.
func (s *simulatedInstallation) setUp(ctx context.Context, w *operationtest.Worker) error {
	p := s.parts(w.Table, s.bucket, rand.NewChaCha8([32]byte{7}), time.Now) // the same in each run
	s.longRunning = s.parts(w.Table, s.bucket, rand.NewChaCha8([32]byte{8}), time.Now)
	k, created := keys.Open(p), map[string][]keys.Key{}
	for _, b := range []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}} {
		_, err := k.CreateBucket(request(ctx, "1"+b.Name), owner, b)
		if err == nil {
			_, err = k.CreateConsumer(request(ctx, "2"+b.Name), consumerAt(b.Name).BucketLocator, keys.NewConsumer{Name: "c"})
		}
		if err == nil {
			created[b.Name], err = k.CreateKeys(request(ctx, "3"+b.Name), consumerAt(b.Name), make([]keys.NewKey, 3))
		}
		if err != nil {
			return err
		}
	}
	if err := k.DeleteKey(request(ctx, "4"), consumerAt("shown"), created["shown"][2].ID); err != nil {
		return err
	}
	tunnel, err := tunnels.Open(p).Create(request(ctx, "5"), owner, "office")
	if err != nil {
		return err
	}
	s.tunnelToken = tunnel.Token
	s.valid = []string{created["shown"][0].Text, created["forgotten"][0].Text, created["forgotten"][1].Text}
	s.revoked = []string{created["shown"][2].Text}
	s.changedIDs = []string{created["shown"][1].ID, created["forgotten"][2].ID}
	s.changedTexts = []string{created["shown"][1].Text, created["forgotten"][2].Text}
	if s.artifact, err = p.Sealer().Seal(ctx, []byte("a project"), artifactContext); err != nil {
		return err
	}
	s.bucket.Upload(blob.ArtifactKey(artifactName), s.artifact)
	if _, err := s.longRunning.Key.Root(ctx); err != nil {
		return err
	}
	_, err = s.service(p).Start(ctx, "auditor")
	return err
}

// checkInvariant checks that clients do not notice the rotation, neither in a new process nor in the long-running process.
func (s *simulatedInstallation) checkInvariant(ctx context.Context, table *store.Table) error {
	now := fmt.Sprint(s.changes.Load(), time.Now().Truncate(time.Minute))
	if now == s.lastChecked {
		return nil
	}
	s.lastChecked = now
	started := s.parts(table, s.bucket, rand.NewChaCha8([32]byte{9}), time.Now)
	for name, p := range map[string]installation.Parts{
		"a new process":            started,
		"the long-running process": s.longRunning,
	} {
		verifier := keys.OpenVerifier(p)
		accepts := func(text string) bool {
			for _, bucket := range []string{"shown", "forgotten"} {
				if _, err := verifier.Verify(ctx, keys.BucketRef{AccountID: "a-1", Name: bucket}, text); err == nil {
					return true
				}
			}
			return false
		}
		if slices.ContainsFunc(s.revoked, accepts) {
			return fmt.Errorf("in %s a revoked key is accepted", name)
		}
		for i, text := range s.valid {
			if !accepts(text) {
				return fmt.Errorf("in %s valid key %d is refused", name, i)
			}
		}
		switch ref, err := tunnels.OpenDirectory(p).Authenticate(ctx, s.tunnelToken); {
		case err != nil:
			return fmt.Errorf("in %s the token of a tunnel: %w", name, err)
		case ref == "":
			return fmt.Errorf("in %s the token of a tunnel is refused", name)
		}
		if err := s.checkReadable(ctx, p); err != nil {
			return fmt.Errorf("in %s: %w", name, err)
		}
	}
	return nil
}

// countingBackend counts transactions, including failed ones, which may have changed the table.
type countingBackend struct {
	store.Backend
	s *simulatedInstallation
}

func (c countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	defer c.s.changes.Add(1)
	return c.Backend.Transact(ctx, token, writes)
}

// Page implements store.Pager.
func (c countingBackend) Page(ctx context.Context, after store.Key, limit int) ([]store.Item, store.Key, error) {
	return c.Backend.(store.Pager).Page(ctx, after, limit)
}

// checkReadable returns an error unless all data that must be shown can be opened.
func (s *simulatedInstallation) checkReadable(ctx context.Context, p installation.Parts) error {
	if _, _, _, err := keys.Open(p).ListKeys(request(ctx, "6"), consumerAt("shown"), store.Page{Limit: 9},
		keys.Visible); err != nil {
		return fmt.Errorf("keys are not shown: %w", err)
	}
	r, _, err := s.bucket.Get(ctx, blob.ArtifactKey(artifactName), "", 1<<20)
	if err != nil {
		return err
	}
	sealed, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if _, err := p.Sealer().Open(ctx, sealed, artifactContext); err != nil {
		return fmt.Errorf("an artifact: %w", err)
	}
	return nil
}

// scenario returns the scenario of a rotation. If traffic is not nil, the tasks
// that traffic returns, by their states, change keys during the rotation.
func scenario(
	traffic func(s *simulatedInstallation, p installation.Parts) map[string]operation.Task,
) func() operationtest.Scenario {
	return func() operationtest.Scenario {
		s := &simulatedInstallation{keys: rootkeytest.New("key"), bucket: blob.NewMemory(time.Now)}
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				p := s.parts(w.Table, disturbedBucket{s.bucket, w, s}, w.Random, w.Now)
				return slices.Concat(withoutCounts(s.service(p).Definitions()), keys.NewCascades(w.Table).Definitions(),
					s.trafficDefinition(p, traffic))
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				err := s.setUp(ctx, w)
				if err == nil && traffic != nil {
					err = w.Table.Commit(ctx, operation.Create(operation.Start{ID: "traffic", Kind: "traffic", Subject: "keys"},
						w.Now()))
				}
				return err
			},
			Invariant: s.checkInvariant,
			Corrupt:   func(b store.Backend) store.Backend { return countingBackend{b, s} },
			External: func() any {
				r, _, err := s.bucket.Get(context.Background(), blob.ArtifactKey(artifactName), "", 1<<20)
				if err != nil {
					return err.Error()
				}
				sealed, err := io.ReadAll(r)
				return fmt.Sprint(err, bytes.Equal(sealed, s.artifact))
			},
			// Sealed values differ in each run, and turns and versions count repeats.
			Ignore: []string{
				"sealed", "token", "createdOn", "updatedOn", "rotation", "lineage", "turns", "version", "seq",
				"switchedOn", "retiredOn", "endedOn", "renewed", "objects",
			},
		}
	}
}

// trafficDefinition returns an operation that changes keys while they are renewed.
func (s *simulatedInstallation) trafficDefinition(
	p installation.Parts, traffic func(s *simulatedInstallation, p installation.Parts) map[string]operation.Task,
) []operation.Definition {
	if traffic == nil {
		return nil
	}
	d := operation.Definition{Kind: "traffic", First: "wait", States: map[string]operation.State{
		"wait": {
			Description: "waits until keys are renewed", MustSucceed: true, Timeout: time.Minute, Next: "replace",
			Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{Delay: 2*time.Hour + 20*time.Minute}, nil
			},
		},
	}}
	next := map[string]string{"replace": "revoke", "revoke": "check", "check": operation.Succeed}
	for name, task := range traffic(s, p) {
		d.States[name] = operation.State{
			Description: "changes keys", MustSucceed: true, Timeout: time.Minute, Task: task,
			Next: next[name],
		}
	}
	return []operation.Definition{d}
}

// withoutCounts removes the counts from results: a process that is killed after a
// write and before the step's commit does not count that write.
func withoutCounts(definitions []operation.Definition) []operation.Definition {
	return withResults(definitions, func(r operation.Result) operation.Result {
		r.Message = ""
		raw, err := json.Marshal(r.Data)
		if err != nil || r.Data == nil {
			return r
		}
		var data map[string]any
		if json.Unmarshal(raw, &data) == nil {
			delete(data, "renewed")
			delete(data, "objects")
			r.Data = data
		}
		return r
	})
}

// withResults changes the results of all tasks.
func withResults(
	definitions []operation.Definition, change func(operation.Result) operation.Result,
) []operation.Definition {
	for _, d := range definitions {
		for name, state := range d.States {
			task := state.Task
			state.Task = func(ctx context.Context, step operation.Step) (operation.Result, error) {
				r, err := task(ctx, step)
				return change(r), err
			}
			d.States[name] = state
		}
	}
	return definitions
}

// TestRotationSurvivesEverything checks a rotation while workers are killed at any call, two workers run at the same
// time with wrong clocks, replies are lost, calls are throttled, and outages last for hours. Between any two calls
// every valid key must work, every revoked key must be refused, and all data that can be shown must be readable.
func TestRotationSurvivesEverything(t *testing.T) {
	operationtest.Simulate(t, scenario(nil), 10)
}

// TestKeyChangesDuringRotation changes keys while the rotation renews them. It checks that a revoked key
// stays revoked, and that a key whose text was replaced works only with the new text.
func TestKeyChangesDuringRotation(t *testing.T) {
	operationtest.Simulate(t, scenario(func(s *simulatedInstallation, p installation.Parts) map[string]operation.Task {
		k := keys.Open(p)
		return map[string]operation.Task{
			"revoke": func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				err := k.DeleteKey(request(ctx, "revoke"), consumerAt("forgotten"), s.changedIDs[1])
				if fault.Is(err, fault.NotFound) { // done, and the reply was lost
					err = nil
				}
				return operation.Result{}, err
			},
			"replace": func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				if _, err := keys.OpenVerifier(p).Verify(ctx, keys.BucketRef{AccountID: "a-1", Name: "shown"},
					"a-text-of-its-owner"); err == nil {
					return operation.Result{}, nil // done, and the reply was lost
				}
				_, err := k.UpdateKey(request(ctx, "replace"), consumerAt("shown"), s.changedIDs[0],
					keys.KeyPatch{Text: "a-text-of-its-owner"})
				return operation.Result{}, err
			},
			"check": func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				return operation.Result{}, s.checkChanges(ctx, p)
			},
		}
	}), 10)
}

// checkChanges returns an error unless this process accepts the new text of the changed key, and refuses the texts of
// the keys before their changes.
func (s *simulatedInstallation) checkChanges(ctx context.Context, p installation.Parts) error {
	v := keys.OpenVerifier(p)
	for i, text := range append([]string{"a-text-of-its-owner"}, s.changedTexts...) {
		bucket := []string{"shown", "shown", "forgotten"}[i]
		_, err := v.Verify(ctx, keys.BucketRef{AccountID: "a-1", Name: bucket}, text)
		switch refused := fault.Is(err, fault.Unauthenticated); {
		case err != nil && !refused:
			return err
		case refused != (i > 0):
			return fmt.Errorf("verify text %d: refused = %t, want %t", i, refused, i > 0)
		}
	}
	return nil
}

// TestSimulationDetectsEarlySwitch breaks the rule that all processes learn of a
// stage before the next stage begins. It checks that the simulation detects this.
func TestSimulationDetectsEarlySwitch(t *testing.T) {
	faulty := func() operationtest.Scenario {
		s := scenario(nil)()
		original := s.Definitions
		s.Definitions = func(w *operationtest.Worker) []operation.Definition {
			return withResults(original(w), func(r operation.Result) operation.Result {
				r.Delay = 0
				return r
			})
		}
		return s
	}
	failure := operationtest.Explore(t, faulty, 10)
	if failure == nil || !strings.Contains(failure.Reason, "the long-running process") {
		t.Fatalf("Explore() with an early switch = %v, want a failure with \"the long-running process\"", failure)
	}
}

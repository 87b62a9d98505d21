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

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// disturbed is a bucket as a worker of the simulation sees it.
type disturbed struct {
	*blob.Memory
	w *operationtest.Worker
	s *simulated
}

func (d disturbed) Get(ctx context.Context, key, etag string, limit int64) (r io.ReadCloser, o blob.Object, err error) {
	err = d.w.Call(ctx, "get "+key, func() (err error) {
		r, o, err = d.Memory.Get(ctx, key, etag, limit)
		return err
	})
	return r, o, err
}

func (d disturbed) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	defer d.s.changes.Add(1)
	return d.w.Call(ctx, "replace "+key, func() error { return d.Memory.Replace(ctx, key, etag, body) })
}

func (d disturbed) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
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

// simulated is an installation in which a rotation goes on while everything fails, and somebody replaces the text of a key, revokes
// another and has a tunnel's token replaced.
type simulated struct {
	keys   *rootkeytest.KMS
	bucket *blob.Memory
	// lasting was there before the rotation, and looks at the root keys once in an age.
	lasting installation.Parts
	// valid are texts that have to open something at any time, ended those that may open nothing; leaving are the ids of keys that are
	// changed meanwhile.
	valid, ended, leaving, leavingTexts []string
	tunnel                              string // a token
	artifact                            []byte
	// changes counts transactions and objects; looked is what it was, and when, at the last look.
	changes atomic.Int64
	looked  string
}

func (s *simulated) parts(table *store.Table, bucket installation.Bucket, random io.Reader, now func() time.Time) installation.Parts {
	return installation.Parts{
		Config: config.Config{Relay: "https://relay.test"}, Table: table, Bucket: bucket, Key: rootkey.New(s.keys, "key", table, now),
		Random: random, Now: now, IDs: ids.NewSource(random, now), Log: slog.New(slog.DiscardHandler),
	}
}

func (s *simulated) service(p installation.Parts) *rotation.Service {
	sealer := p.Sealer()
	return rotation.Open(p, slices.Concat(keys.Kept(p), tunnels.Kept(p)), artifacts.Prefix(), func(ctx context.Context, key string) (renewed, ok bool, err error) {
		return artifacts.Renew(ctx, p.Bucket, sealer, key, func(context.Context, string) (bool, error) { return true, nil })
	})
}

func request(ctx context.Context, id string) context.Context {
	return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", Action: "consumer.update", Time: storetest.Epoch, RequestID: id}))
}

const (
	artifactName    = "one/0123456789"
	artifactContext = "artifact/" + artifactName
)

// arrange fills the installation, and begins the rotation.
func (s *simulated) arrange(ctx context.Context, w *operationtest.Worker) error {
	p := s.parts(w.Table, s.bucket, rand.NewChaCha8([32]byte{7}), time.Now) // the same in each run
	s.lasting = s.parts(w.Table, s.bucket, rand.NewChaCha8([32]byte{8}), time.Now)
	k, made := keys.Open(p), map[string][]keys.Key{}
	for _, b := range []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}} {
		_, err := k.CreateBucket(request(ctx, "1"+b.Name), owner, b)
		if err == nil {
			_, err = k.CreateConsumer(request(ctx, "2"+b.Name), at(b.Name).BucketAt, keys.NewConsumer{Name: "c"})
		}
		if err == nil {
			made[b.Name], err = k.CreateKeys(request(ctx, "3"+b.Name), at(b.Name), make([]keys.NewKey, 3))
		}
		if err != nil {
			return err
		}
	}
	if err := k.DeleteKey(request(ctx, "4"), at("shown"), made["shown"][2].ID); err != nil {
		return err
	}
	tunnel, err := tunnels.Open(p).Create(request(ctx, "5"), owner, "office")
	if err != nil {
		return err
	}
	s.tunnel = tunnel.Token
	s.valid = []string{made["shown"][0].Text, made["forgotten"][0].Text, made["forgotten"][1].Text}
	s.ended = []string{made["shown"][2].Text}
	s.leaving = []string{made["shown"][1].ID, made["forgotten"][2].ID}
	s.leavingTexts = []string{made["shown"][1].Text, made["forgotten"][2].Text}
	if s.artifact, err = p.Sealer().Seal(ctx, []byte("a project"), artifactContext); err != nil {
		return err
	}
	s.bucket.Upload(blob.ArtifactKey(artifactName), s.artifact)
	if _, err := s.lasting.Key.Root(ctx); err != nil {
		return err
	}
	_, err = s.service(p).Start(ctx, "auditor")
	return err
}

// always is what nobody may notice: in a process that has just started, and in one that has been there for long.
func (s *simulated) always(ctx context.Context, table *store.Table) error {
	now := fmt.Sprint(s.changes.Load(), time.Now().Truncate(time.Minute))
	if now == s.looked {
		return nil
	}
	s.looked = now
	fresh := s.parts(table, s.bucket, rand.NewChaCha8([32]byte{9}), time.Now)
	for name, p := range map[string]installation.Parts{"that has just started": fresh, "that has been there for long": s.lasting} {
		verifier := keys.OpenVerifier(p)
		opens := func(text string) bool {
			for _, bucket := range []string{"shown", "forgotten"} {
				if _, err := verifier.Verify(ctx, keys.BucketRef{AccountID: "a-1", Name: bucket}, text); err == nil {
					return true
				}
			}
			return false
		}
		if slices.ContainsFunc(s.ended, opens) {
			return fmt.Errorf("in a process %s a revoked key opens", name)
		}
		for i, text := range s.valid {
			if !opens(text) {
				return fmt.Errorf("in a process %s key %d opens nothing", name, i)
			}
		}
		if ref, err := tunnels.OpenDirectory(p).Authorize(ctx, s.tunnel); err != nil || ref == "" {
			return fmt.Errorf("in a process %s the token of a tunnel leads nowhere (%w)", name, err)
		}
		if err := s.shows(ctx, p); err != nil {
			return fmt.Errorf("in a process %s: %w", name, err)
		}
	}
	return nil
}

// counted counts what may have changed something.
type counted struct {
	store.Backend
	s *simulated
}

func (c counted) Transact(ctx context.Context, token string, writes []store.Write) error {
	defer c.s.changes.Add(1)
	return c.Backend.Transact(ctx, token, writes)
}

// Page implements store.Pager.
func (c counted) Page(ctx context.Context, behind store.Key, limit int) ([]store.Item, store.Key, error) {
	return c.Backend.(store.Pager).Page(ctx, behind, limit)
}

// shows fails unless what is kept to be shown opens.
func (s *simulated) shows(ctx context.Context, p installation.Parts) error {
	if _, _, _, err := keys.Open(p).ListKeys(request(ctx, "6"), at("shown"), store.Page{Limit: 9}, keys.Visible); err != nil {
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

// scenario is a rotation, with a request that comes at any time in it.
func scenario(traffic func(s *simulated, p installation.Parts) map[string]operation.Task) func() operationtest.Scenario {
	return func() operationtest.Scenario {
		s := &simulated{keys: rootkeytest.New("key"), bucket: blob.NewMemory(time.Now)}
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				p := s.parts(w.Table, disturbed{s.bucket, w, s}, w.Random, w.Now)
				return slices.Concat(uncounted(s.service(p).Definitions()), keys.NewCascades(w.Table).Definitions(), s.changing(p, traffic))
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				err := s.arrange(ctx, w)
				if err == nil && traffic != nil {
					err = w.Table.Commit(ctx, operation.Begin(operation.Start{ID: "traffic", Kind: "traffic", Subject: "keys"}, w.Now()))
				}
				return err
			},
			Always:   s.always,
			Sabotage: func(b store.Backend) store.Backend { return counted{b, s} },
			Outside: func() any {
				r, _, err := s.bucket.Get(context.Background(), blob.ArtifactKey(artifactName), "", 1<<20)
				if err != nil {
					return err.Error()
				}
				sealed, err := io.ReadAll(r)
				return fmt.Sprint(err, bytes.Equal(sealed, s.artifact))
			},
			// Values are sealed anew each time, and turns and versions count what was repeated.
			Ignore: []string{"sealed", "token", "createdOn", "updatedOn", "rotation", "lineage", "turns", "version", "seq", "switchedOn", "retiredOn", "endedOn", "renewed", "objects"},
		}
	}
}

// changing is an operation that changes keys at the time at which they are renewed.
func (s *simulated) changing(p installation.Parts, traffic func(s *simulated, p installation.Parts) map[string]operation.Task) []operation.Definition {
	if traffic == nil {
		return nil
	}
	d := operation.Definition{Kind: "traffic", First: "wait", States: map[string]operation.State{
		"wait": {Does: "waits until keys are renewed", Must: true, Timeout: time.Minute, Next: "replace", Task: func(context.Context, operation.Step) (operation.Result, error) {
			return operation.Result{After: 2*time.Hour + 20*time.Minute}, nil
		}},
	}}
	next := map[string]string{"replace": "revoke", "revoke": "sure", "sure": operation.Succeed}
	for name, task := range traffic(s, p) {
		d.States[name] = operation.State{Does: "changes keys", Must: true, Timeout: time.Minute, Task: task, Next: next[name]}
	}
	return []operation.Definition{d}
}

// uncounted leaves out how much was renewed: who is killed after a write and before the step's own counts it as nothing.
func uncounted(definitions []operation.Definition) []operation.Definition {
	return changed(definitions, func(r operation.Result) operation.Result {
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

// changed has all tasks answer something else.
func changed(definitions []operation.Definition, change func(operation.Result) operation.Result) []operation.Definition {
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

// TestRotationSurvivesEverything: workers that are killed at any call, two at once with wrong clocks, lost replies, throttles and outages
// of hours. Between any two calls every key that was valid is, every one that was revoked is not, and all that can be shown is.
func TestRotationSurvivesEverything(t *testing.T) {
	operationtest.Simulate(t, scenario(nil), 10)
}

// TestKeysChangedWhileRotatedEndAsTheyWereChanged: one that is revoked while it is renewed stays revoked, one whose text is replaced
// opens by the new one alone, and a token that is replaced leads nowhere.
func TestKeysChangedWhileRotatedEndAsTheyWereChanged(t *testing.T) {
	operationtest.Simulate(t, scenario(func(s *simulated, p installation.Parts) map[string]operation.Task {
		k := keys.Open(p)
		return map[string]operation.Task{
			"revoke": func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				err := k.DeleteKey(request(ctx, "revoke"), at("forgotten"), s.leaving[1])
				if fault.Is(err, fault.NotFound) { // done, and the answer was lost
					err = nil
				}
				return operation.Result{}, err
			},
			"replace": func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				if _, err := keys.OpenVerifier(p).Verify(ctx, keys.BucketRef{AccountID: "a-1", Name: "shown"}, "a-text-of-its-owner"); err == nil {
					return operation.Result{}, nil // done, and the answer was lost
				}
				_, err := k.UpdateKey(request(ctx, "replace"), at("shown"), s.leaving[0], keys.KeyPatch{Text: "a-text-of-its-owner"})
				return operation.Result{}, err
			},
			"sure": func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				return operation.Result{}, s.left(ctx, p)
			},
		}
	}), 10)
}

// left fails unless what was changed is as it was changed, in this process.
func (s *simulated) left(ctx context.Context, p installation.Parts) error {
	v := keys.OpenVerifier(p)
	for i, text := range append([]string{"a-text-of-its-owner"}, s.leavingTexts...) {
		bucket := []string{"shown", "shown", "forgotten"}[i]
		_, err := v.Verify(ctx, keys.BucketRef{AccountID: "a-1", Name: bucket}, text)
		switch {
		case fault.Is(err, fault.Unauthenticated) != (i > 0):
			return fmt.Errorf("text %d is answered %w", i, err)
		case err != nil && !fault.Is(err, fault.Unauthenticated):
			return err
		}
	}
	return nil
}

// TestSimulationNoticesASwitchThatNobodyHeardOf breaks the rule that processes hear of a stage before the next one, to see that the
// simulation can fail.
func TestSimulationNoticesASwitchThatNobodyHeardOf(t *testing.T) {
	broken := func() operationtest.Scenario {
		s := scenario(nil)()
		sound := s.Definitions
		s.Definitions = func(w *operationtest.Worker) []operation.Definition {
			return changed(sound(w), func(r operation.Result) operation.Result {
				r.After = 0
				return r
			})
		}
		return s
	}
	failure := operationtest.Explore(t, broken, 10)
	if failure == nil || !strings.Contains(failure.Reason, "that has been there for long") {
		t.Fatalf("what is noticed: %v", failure)
	}
}

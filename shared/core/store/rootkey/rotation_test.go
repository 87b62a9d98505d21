package rootkey_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// commit commits the writes of a rotation. err is the error of the call that returned the writes.
func commit(t *testing.T, table *store.Table, writes []store.Write, err error) {
	t.Helper()
	if err == nil {
		err = table.Commit(t.Context(), writes...)
	}
	if err != nil {
		t.Fatalf("the writes of a stage, or their commit = %v, want success", err)
	}
}

// stages returns the stages of a rotation, in their order.
func stages(s *rootkey.Source) []func(context.Context, string) ([]store.Write, error) {
	return []func(context.Context, string) ([]store.Write, error){
		func(ctx context.Context, op string) ([]store.Write, error) { return s.Begin(ctx, op, "auditor") },
		s.Switch, s.Retire,
		func(ctx context.Context, op string) ([]store.Write, error) {
			return s.Finish(ctx, op, rootkey.Counts{})
		},
	}
}

// TestStagesRequireOrder checks that each stage requires the operation of the rotation and the previous stage,
// and that no stage is done twice. The writes of a stage must fail if another process was faster. The test
// covers installations without an earlier rotation, with an earlier rotation, and with the key in a file.
func TestStagesRequireOrder(t *testing.T) {
	for name, file := range map[string]bool{"KMS": false, "a file": true} {
		items := memory.New()
		table, k := storetest.NewWithBackend(t, items), rootkeytest.New("key")
		path := filepath.Join(t.TempDir(), "root.key")
		source := func() *rootkey.Source {
			if file {
				return rootkey.NewFile(path, table, time.Now, nil)
			}
			return rootkey.New(k, "key", table, time.Now)
		}
		for round, op := range []string{"first", "second"} {
			for current := range 4 {
				for i, stage := range stages(source()) {
					switch stageWrites, err := stage(t.Context(), op); {
					case i == 0: // begins if no rotation is in progress
						if (err != nil) != (current > 0) {
							t.Errorf("%s, %s, before stage %d: Begin() = %v, want an error only during a rotation", name, op, current, err)
						}
					case i == current-1:
						if len(stageWrites) > 0 {
							t.Errorf("%s, %s, before stage %d: the previous stage returns %d writes (%v), want none",
								name, op, current, len(stageWrites), err)
						}
					case i > current && err == nil && len(stageWrites) > 0:
						t.Errorf("%s, %s, before stage %d: stage %d succeeds early, want an error or no writes", name, op, current, i)
					}
					if _, err := stage(t.Context(), "another"); i > 0 && err == nil {
						t.Errorf("%s, %s, before stage %d: stage %d of another operation succeeds, want an error", name, op, current, i)
					}
				}
				// Two processes create the writes of the stage from the same state. Only the first commit must succeed.
				writes, err := stages(source())[current](t.Context(), op)
				competing, competingErr := stages(source())[current](t.Context(), op+map[bool]string{true: "-too"}[current == 0])
				if competingErr != nil {
					t.Fatal(competingErr)
				}
				commit(t, table, writes, err)
				if err := table.Commit(t.Context(), competing...); err == nil {
					t.Errorf("%s, %s, before stage %d: a second commit from the same state succeeds, want an error", name, op, current)
				}
			}
			for i, stage := range stages(source())[1:] {
				if _, err := stage(t.Context(), op); err == nil {
					t.Errorf("%s, %s: stage %d after the end succeeds, want an error", name, op, i+1)
				}
			}
			if status, err := source().Status(t.Context()); err != nil || status.Number != round+2 || status.Other != 0 ||
				status.Rotating() {
				t.Errorf("%s: Status() after the %s rotation = %+v, %v, want number %d and no other",
					name, op, status, err, round+2)
			}
		}
	}
}

// TestBeginUsesStoredRootKey checks that a rotation creates the first root key if there
// is none, and uses the root key in the table if the root key in memory was replaced. If an
// import replaces the root key after Begin, the writes of Begin must fail.
func TestBeginUsesStoredRootKey(t *testing.T) {
	k, table := rootkeytest.New("key"), storetest.New(t)
	stale := rootkey.New(k, "key", table, time.Now)
	if _, err := stale.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, stage := range stages(rootkey.New(k, "key", table, time.Now)) {
		writes, err := stage(t.Context(), "first")
		commit(t, table, writes, err)
	}
	writes, err := stale.Begin(t.Context(), "second", "auditor")
	commit(t, table, writes, err)
	if status, err := stale.Status(t.Context()); err != nil || status.Number != 2 || status.Other != 3 {
		t.Errorf("Status() of a stale process = %+v, %v, want number 2 and other 3", status, err)
	}

	table = storetest.New(t)
	fresh := rootkey.New(k, "key", table, time.Now)
	writes, err = fresh.Begin(t.Context(), "first", "auditor")
	commit(t, table, writes, err)
	if status, err := fresh.Status(t.Context()); err != nil || status.Number != 1 || status.Other != 2 {
		t.Errorf("Status() of a new table = %+v, %v, want number 1 and other 2", status, err)
	}

	// An import replaces the root key after the process has read it.
	table = storetest.New(t)
	fresh = rootkey.New(k, "key", table, time.Now)
	writes, err = fresh.Begin(t.Context(), "first", "auditor")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := rootkey.Import(t.Context(), k, "key", table, firstRootKey(make([]byte, seal.KeyBytes)), time.Now)
	commit(t, table, []store.Write{w}, err)
	if err := table.Commit(t.Context(), writes...); !errors.Is(err, store.ErrStale) {
		t.Errorf("commit of Begin() over an imported root key = %v, want %v", err, store.ErrStale)
	}
}

// TestLookupsSurviveSecondRotation checks in two rotations that a hash from before the rotation is found
// after the next root key was created, and after the switch. The second rotation must keep the first lineage.
func TestLookupsSurviveSecondRotation(t *testing.T) {
	k, table := rootkeytest.New("key"), storetest.New(t)
	lookups := func() []string {
		out, err := seal.NewHasher(rootkey.New(k, "key", table, time.Now), "consumer-key").Lookups(t.Context(), "a key")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, op := range []string{"first", "second"} {
		var known string
		for i, stage := range stages(rootkey.New(k, "key", table, time.Now)) {
			before := lookups()
			if i == 0 {
				known = before[0]
			}
			writes, err := stage(t.Context(), op)
			commit(t, table, writes, err)
			if i < 2 && !slices.Contains(lookups(), known) {
				t.Errorf("%s: Lookups() after stage %d lacks the earlier hash, want it", op, i)
			}
		}
	}
}

// TestOtherChangesAreRefusedUntilFinish checks that AddKMSKey and Export are refused
// during a rotation, because a process may still have the old root key.
func TestOtherChangesAreRefusedUntilFinish(t *testing.T) {
	k, table := rootkeytest.New("key", "new"), storetest.New(t)
	for _, stage := range stages(rootkey.New(k, "key", table, time.Now))[:3] {
		writes, err := stage(t.Context(), "op")
		commit(t, table, writes, err)
	}
	if err := rootkey.AddKMSKey(t.Context(), k, "key", "new", table, initiator()); err == nil {
		t.Error("AddKMSKey() during a rotation succeeds, want an error")
	}
	if _, err := rootkey.Export(t.Context(), k, "key", table); !errors.Is(err, rootkey.ErrRotating) {
		t.Errorf("Export() during a rotation = %v, want %v", err, rootkey.ErrRotating)
	}
}

// TestKeyFileStaysIfCallbackFails checks that the key file is not replaced if the callback of NewFile returns an error.
func TestKeyFileStaysIfCallbackFails(t *testing.T) {
	table, path := storetest.New(t), filepath.Join(t.TempDir(), "root.key")
	errCallback := errors.New("the disk is full")
	s := rootkey.NewFile(path, table, time.Now, func(string) error { return errCallback })
	if _, err := s.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := seal.RootKeyHash(t.Context(), seal.ExistingFile(path))
	if err != nil {
		t.Fatal(err)
	}
	for i, stage := range stages(s) {
		writes, err := stage(t.Context(), "op")
		if i == 3 {
			if !errors.Is(err, errCallback) {
				t.Errorf("stage %d with a failing callback = %v, want %v", i, err, errCallback)
			}
			break
		}
		commit(t, table, writes, err)
	}
	if after, err := seal.RootKeyHash(t.Context(), seal.ExistingFile(path)); err != nil || after != before {
		t.Errorf("key file after a failing callback: changed %t (%v), want no change", after != before, err)
	}
}

// TestHistoryIsSortedByTime checks that the newest event is first, even if the time of another event is a whole second.
func TestHistoryIsSortedByTime(t *testing.T) {
	k, table := rootkeytest.New("old", "new"), storetest.New(t)
	if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rootkey.AddKMSKey(t.Context(), k, "old", "new", table,
		rootkey.Initiator{At: storetest.Epoch.Truncate(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if err := rootkey.KeepOnlyKMSKey(t.Context(), k, "new", table,
		rootkey.Initiator{At: storetest.Epoch.Truncate(time.Second).Add(500 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	if h, err := rootkey.History(t.Context(), table); err != nil || len(h) != 2 || h[0].Kind != rootkey.KMSKeyRemoved {
		t.Errorf("History() = %+v, %v, want 2 events, the first of the kind %v", h, err, rootkey.KMSKeyRemoved)
	}
}

// TestMaxAge checks the refresh interval: an hour for KMS, a minute for a file.
func TestMaxAge(t *testing.T) {
	table := storetest.New(t)
	if maxAge := rootkey.New(rootkeytest.New("key"), "key", table, time.Now).MaxAge(); maxAge != time.Hour {
		t.Errorf("MaxAge() with KMS = %s, want 1h0m0s", maxAge)
	}
	if maxAge := rootkey.NewFile("root.key", table, time.Now, nil).MaxAge(); maxAge != time.Minute {
		t.Errorf("MaxAge() with a file = %s, want 1m0s", maxAge)
	}
}

// TestInvalidExportedKeyIsRefused checks that Check refuses a later root key without its lineage, because earlier
// hashes could not be found with it. Check also refuses a first root key with a lineage, and the number 0.
func TestInvalidExportedKeyIsRefused(t *testing.T) {
	key := make([]byte, seal.KeyBytes)
	for _, m := range []rootkey.ExportedKey{
		{Number: 2, Key: key},
		{Number: 1, Key: key, Lineage: []byte("x")},
		{Number: 0, Key: key},
	} {
		if m.Check() == nil {
			t.Errorf("Check() of %+v = nil, want an error", m)
		}
	}
}

package rootkey_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// commit makes writes by which a rotation goes on.
func commit(t *testing.T, table *store.Table, writes []store.Write, err error) {
	t.Helper()
	if err == nil {
		err = table.Commit(t.Context(), writes...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stages are those of a rotation, in their order.
func stages(s *rootkey.Source) []func(context.Context, string) ([]store.Write, error) {
	return []func(context.Context, string) ([]store.Write, error){
		func(ctx context.Context, op string) ([]store.Write, error) { return s.Begin(ctx, op, "auditor") },
		s.Switch, s.Retire,
		func(ctx context.Context, op string) ([]store.Write, error) {
			return s.Settle(ctx, op, rootkey.Counts{})
		},
	}
}

// TestStagesAreOneRotationsInTheirOrder: none is another operation's, none comes before the one that it builds on, none is done twice, and
// what was read before somebody else was faster does nothing. An installation has had no rotation, one, or none and its key in a file.
func TestStagesAreOneRotationsInTheirOrder(t *testing.T) {
	for name, file := range map[string]bool{"KMS": false, "a file": true} {
		items := memory.New()
		table, k := storetest.Over(t, items), rootkeytest.New("key")
		path := filepath.Join(t.TempDir(), "root.key")
		source := func() *rootkey.Source {
			if file {
				return rootkey.InFile(path, table, time.Now, nil)
			}
			return rootkey.New(k, "key", table, time.Now)
		}
		for turn, op := range []string{"first", "second"} {
			for at := range 4 {
				for i, stage := range stages(source()) {
					switch early, err := stage(t.Context(), op); {
					case i == 0: // begins where none goes on
						if (err != nil) != (at > 0) {
							t.Errorf("%s, %s, stage %d: a beginning is answered %v", name, op, at, err)
						}
					case i == at-1:
						if len(early) > 0 {
							t.Errorf("%s, %s, stage %d: the one before writes %d times again (%v)", name, op, at, len(early), err)
						}
					case i > at && err == nil && len(early) > 0:
						t.Errorf("%s, %s, stage %d: %d is done before", name, op, at, i)
					}
					if _, err := stage(t.Context(), "another"); i > 0 && err == nil {
						t.Errorf("%s, %s, stage %d: %d is done for another operation", name, op, at, i)
					}
				}
				writes, err := stages(source())[at](t.Context(), op)
				late, errLate := stages(source())[at](t.Context(), op+map[bool]string{true: "-too"}[at == 0])
				if errLate != nil {
					t.Fatal(errLate)
				}
				commit(t, table, writes, err)
				if err := table.Commit(t.Context(), late...); err == nil {
					t.Errorf("%s, %s: stage %d is done by two who have read the same", name, op, at)
				}
			}
			for i, stage := range stages(source())[1:] {
				if _, err := stage(t.Context(), op); err == nil {
					t.Errorf("%s, %s: behind its end stage %d is done again", name, op, i+1)
				}
			}
			if its, err := source().Status(t.Context()); err != nil || its.Number != turn+2 || its.Other != 0 || its.Rotating() {
				t.Errorf("%s: behind the %s rotation there is %+v, %v", name, op, its, err)
			}
		}
	}
}

// TestRotationBeginsWithTheRootKeyThatIsThere, made where there is none, and not with one that a process remembers.
func TestRotationBeginsWithTheRootKeyThatIsThere(t *testing.T) {
	k, table := rootkeytest.New("key"), storetest.New(t)
	slow := rootkey.New(k, "key", table, time.Now)
	if _, err := slow.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, stage := range stages(rootkey.New(k, "key", table, time.Now)) {
		writes, err := stage(t.Context(), "first")
		commit(t, table, writes, err)
	}
	writes, err := slow.Begin(t.Context(), "second", "auditor")
	commit(t, table, writes, err)
	if its, err := slow.Status(t.Context()); err != nil || its.Number != 2 || its.Other != 3 {
		t.Errorf("behind 2 follows %+v, %v", its, err)
	}

	table = storetest.New(t)
	fresh := rootkey.New(k, "key", table, time.Now)
	writes, err = fresh.Begin(t.Context(), "first", "auditor")
	commit(t, table, writes, err)
	if its, err := fresh.Status(t.Context()); err != nil || its.Number != 1 || its.Other != 2 {
		t.Errorf("behind none follows %+v, %v", its, err)
	}

	// An import has put another root key in its place since it was read.
	table = storetest.New(t)
	fresh = rootkey.New(k, "key", table, time.Now)
	writes, err = fresh.Begin(t.Context(), "first", "auditor")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := rootkey.Adopt(t.Context(), k, "key", table, first(make([]byte, seal.KeyBytes)), time.Now)
	commit(t, table, []store.Write{w}, err)
	if err := table.Commit(t.Context(), writes...); !errors.Is(err, store.ErrStale) {
		t.Errorf("over an imported root key it is answered %v", err)
	}
}

// TestWhatIsKnownByAHashStaysSoInASecondRotation: the root key before has one before it, whose lineage goes with it.
func TestWhatIsKnownByAHashStaysSoInASecondRotation(t *testing.T) {
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
		for at, stage := range stages(rootkey.New(k, "key", table, time.Now)) {
			before := lookups()
			if at == 0 {
				known = before[0]
			}
			writes, err := stage(t.Context(), op)
			commit(t, table, writes, err)
			if at < 2 && !slices.Contains(lookups(), known) {
				t.Errorf("%s: behind stage %d nobody finds what was kept before", op, at)
			}
		}
	}
}

// TestNothingElseIsDoneBetweenRetiringAndTheEnd: a process may have the old root key still.
func TestNothingElseIsDoneBetweenRetiringAndTheEnd(t *testing.T) {
	k, table := rootkeytest.New("key", "new"), storetest.New(t)
	for _, stage := range stages(rootkey.New(k, "key", table, time.Now))[:3] {
		writes, err := stage(t.Context(), "op")
		commit(t, table, writes, err)
	}
	if err := rootkey.WrapAlso(t.Context(), k, "key", "new", table, asked()); err == nil {
		t.Error("it goes over to another KMS key")
	}
	if _, err := rootkey.Existing(t.Context(), k, "key", table); !errors.Is(err, rootkey.ErrTurning) {
		t.Errorf("an export is answered %v", err)
	}
}

// TestKeyFileStaysWhereNobodyCouldBeToldOfItsSuccessor.
func TestKeyFileStaysWhereNobodyCouldBeToldOfItsSuccessor(t *testing.T) {
	table, path := storetest.New(t), filepath.Join(t.TempDir(), "root.key")
	untold := errors.New("the disk is full")
	s := rootkey.InFile(path, table, time.Now, func(string) error { return untold })
	if _, err := s.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := seal.Check(t.Context(), seal.ExistingFile(path))
	if err != nil {
		t.Fatal(err)
	}
	for i, stage := range stages(s) {
		writes, err := stage(t.Context(), "op")
		if i == 3 {
			if !errors.Is(err, untold) {
				t.Errorf("the end is answered %v", err)
			}
			break
		}
		commit(t, table, writes, err)
	}
	if after, err := seal.Check(t.Context(), seal.ExistingFile(path)); err != nil || after != before {
		t.Errorf("the key file has another key (%v)", err)
	}
}

// TestHistoryIsInTheOrderOfTimes, of whole seconds too.
func TestHistoryIsInTheOrderOfTimes(t *testing.T) {
	k, table := rootkeytest.New("old", "new"), storetest.New(t)
	if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rootkey.WrapAlso(t.Context(), k, "old", "new", table, rootkey.Asked{On: storetest.Epoch.Truncate(time.Second)}); err != nil {
		t.Fatal(err)
	}
	if err := rootkey.WrapOnly(t.Context(), k, "new", table, rootkey.Asked{On: storetest.Epoch.Truncate(time.Second).Add(500 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	if h, err := rootkey.History(t.Context(), table); err != nil || len(h) != 2 || h[0].Kind != rootkey.Unwrapped {
		t.Errorf("the history is %+v, %v", h, err)
	}
}

// TestProcessesAskAgainWithinTheirTime: an hour where KMS is asked, a minute where a file is read.
func TestProcessesAskAgainWithinTheirTime(t *testing.T) {
	table := storetest.New(t)
	if its := rootkey.New(rootkeytest.New("key"), "key", table, time.Now).MaxAge(); its != time.Hour {
		t.Errorf("KMS is asked each %s", its)
	}
	if its := rootkey.InFile("root.key", table, time.Now, nil).MaxAge(); its != time.Minute {
		t.Errorf("the file is read each %s", its)
	}
}

// TestRootKeyWithoutWhatItFollowsDoesNotMove: hashes of before it would be nobody's.
func TestRootKeyWithoutWhatItFollowsDoesNotMove(t *testing.T) {
	key := make([]byte, seal.KeyBytes)
	for _, m := range []rootkey.Moved{{Number: 2, Key: key}, {Number: 1, Key: key, Lineage: []byte("x")}, {Number: 0, Key: key}} {
		if m.Check() == nil {
			t.Errorf("%+v is taken", m)
		}
	}
}

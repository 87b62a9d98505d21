package rootkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func asked() rootkey.Asked { return rootkey.Asked{By: "auditor", On: time.Now()} }

// opens reports whether a process that has just started with a KMS key comes to the root key.
func opens(t *testing.T, k *rootkeytest.KMS, id string, table *store.Table, root []byte) bool {
	t.Helper()
	got, err := rootkey.New(k, id, table, time.Now).Root(t.Context())
	if err == nil && !bytes.Equal(got, root) {
		t.Fatalf("the KMS key %s gives another root key", id)
	}
	return err == nil
}

// TestInstallationGoesOverToAnotherKMSKey in two steps, each of which may be repeated: between them both keys unwrap the root key, which
// stays what it is, and after them the new one alone does.
func TestInstallationGoesOverToAnotherKMSKey(t *testing.T) {
	k, table := rootkeytest.New("old", "new", "third"), storetest.New(t)
	if err := rootkey.WrapAlso(t.Context(), k, "old", "new", table, asked()); !errors.Is(err, rootkey.ErrNone) {
		t.Errorf("a table without a root key is answered %v", err)
	}
	root, err := rootkey.New(k, "old", table, time.Now).Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := rootkey.WrapOnly(t.Context(), k, "new", table, asked()); err == nil || !strings.Contains(err.Error(), "nothing was changed: begin with rewrap-root-key") {
		t.Errorf("a finish of nothing is answered %v", err)
	}
	for range 2 {
		if err := rootkey.WrapAlso(t.Context(), k, "old", "new", table, asked()); err != nil {
			t.Fatal(err)
		}
		if !opens(t, k, "old", table, root) || !opens(t, k, "new", table, root) || opens(t, k, "third", table, root) {
			t.Fatal("both KMS keys, and no other, have to unwrap it")
		}
	}
	if got, err := rootkey.Existing(t.Context(), k, "new", table); err != nil || !bytes.Equal(got.Key, root) {
		t.Errorf("an export by the new one is answered %v", err)
	}
	if err := rootkey.WrapAlso(t.Context(), k, "old", "third", table, asked()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a third one is answered %v", err)
	}
	if _, err := rootkey.New(k, "old", table, time.Now).Begin(t.Context(), "op", "auditor"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a rotation meanwhile is answered %v", err)
	}
	if err := rootkey.WrapOnly(t.Context(), k, "third", table, asked()); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a finish with another one is answered %v", err)
	}
	for range 2 {
		if err := rootkey.WrapOnly(t.Context(), k, "new", table, asked()); err != nil {
			t.Fatal(err)
		}
		if opens(t, k, "old", table, root) || !opens(t, k, "new", table, root) {
			t.Fatal("the new KMS key alone has to unwrap it")
		}
	}
	h, err := rootkey.History(t.Context(), table)
	if err != nil || len(h) != 2 || h[0].Kind != rootkey.Unwrapped || h[0].To != "new" || h[1].Kind != rootkey.Wrapped || h[1].From != "old" || h[1].To != "new" || h[1].By != "auditor" || h[1].Number != 1 {
		t.Errorf("the history is %+v, %v", h, err)
	}
	if err := rootkey.WrapAlso(t.Context(), k, "old", "new", table, asked()); err == nil {
		t.Error("the old one, which unwraps nothing, begins again")
	}
	if err := rootkey.WrapAlso(t.Context(), k, "new", "old", table, asked()); err != nil || !opens(t, k, "old", table, root) {
		t.Errorf("the way back is answered %v", err)
	}
}

// TestKMSKeyIsNotWrappedBesideItself by any of its names: the installation would go over to nothing, and rotate nothing meanwhile.
func TestKMSKeyIsNotWrappedBesideItself(t *testing.T) {
	k, table := rootkeytest.New("old"), storetest.New(t)
	if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"old", "arn:aws:kms:eu-west-1:000000000000:key/old"} {
		if err := rootkey.WrapAlso(t.Context(), k, "old", to, table, asked()); !errors.Is(err, rootkey.ErrSameKey) {
			t.Errorf("%s beside old is answered %v", to, err)
		}
	}
	if h, err := rootkey.History(t.Context(), table); err != nil || len(h) != 0 {
		t.Errorf("the history has %v, %v", h, err)
	}
	if _, err := rootkey.New(k, "old", table, time.Now).Begin(t.Context(), "op", "auditor"); err != nil {
		t.Errorf("a rotation afterwards is answered %v", err)
	}
}

// TestRootKeyThatAnotherKMSKeyDoesNotUnwrapStays: what is disabled, or of another region, wraps nothing.
func TestRootKeyThatAnotherKMSKeyDoesNotUnwrapStays(t *testing.T) {
	k, items := rootkeytest.New("old", "disabled"), memory.New()
	table := storetest.Over(t, items)
	if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Disable("disabled")
	before := items.Items()[store.Space("root-key").Key()]
	for _, to := range []string{"disabled", "arn:aws:kms:eu-west-1:000000000000:key/elsewhere"} {
		if err := rootkey.WrapAlso(t.Context(), k, "old", to, table, asked()); err == nil {
			t.Errorf("%s wraps it", to)
		}
	}
	if err := rootkey.WrapAlso(t.Context(), k, "disabled", "old", table, asked()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a KMS key that unwraps nothing is answered %v", err)
	}
	if !store.EqualItems(before, items.Items()[store.Space("root-key").Key()]) {
		t.Error("the record has changed")
	}
}

// lossy loses the answer of the transaction that comes next, or the transaction.
type lossy struct {
	store.Backend
	before, after bool
}

var errDead = errors.New("the process was killed")

func (l *lossy) Transact(ctx context.Context, token string, writes []store.Write) error {
	before, after := l.before, l.after
	l.before, l.after = false, false
	if before {
		return errDead
	}
	err := l.Backend.Transact(ctx, token, writes)
	if err == nil && after {
		err = errDead
	}
	return err
}

// TestGoingOverSurvivesAKill before each of its two writes, or after it: the same command goes on.
func TestGoingOverSurvivesAKill(t *testing.T) {
	for _, c := range []struct {
		finish, after bool
	}{{}, {after: true}, {finish: true}, {finish: true, after: true}} {
		k, l := rootkeytest.New("old", "new"), &lossy{Backend: memory.New()}
		table := storetest.Over(t, l)
		root, err := rootkey.New(k, "old", table, time.Now).Root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		steps := []func() error{
			func() error { return rootkey.WrapAlso(t.Context(), k, "old", "new", table, asked()) },
			func() error { return rootkey.WrapOnly(t.Context(), k, "new", table, asked()) },
		}
		for i, step := range steps {
			if c.finish == (i == 1) {
				l.before, l.after = !c.after, c.after
				if err := step(); !errors.Is(err, errDead) {
					t.Fatalf("%+v: killed, it answers %v", c, err)
				}
				if !opens(t, k, "new", table, root) && !opens(t, k, "old", table, root) {
					t.Fatalf("%+v: no KMS key unwraps it", c)
				}
			}
			if err := step(); err != nil {
				t.Fatalf("%+v: again it answers %v", c, err)
			}
		}
		if opens(t, k, "old", table, root) || !opens(t, k, "new", table, root) {
			t.Errorf("%+v: the new KMS key alone has to unwrap it", c)
		}
	}
}

// TestRotationAndAnotherKMSKeyDoNotMeet: of a rotation and of going over that begin at once, by several machines, one goes on and the other is
// refused with what to do; the root key is unwrapped throughout.
func TestRotationAndAnotherKMSKeyDoNotMeet(t *testing.T) {
	for n := range 30 {
		k, table := rootkeytest.New("old", "new"), storetest.New(t)
		root, err := rootkey.New(k, "old", table, time.Now).Root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		over, begun := make([]error, 2), make([]error, 2)
		for i := range 2 {
			all.Go(func() { over[i] = rootkey.WrapAlso(t.Context(), k, "old", "new", table, asked()) })
			all.Go(func() {
				begun[i] = table.Again(t.Context(), func(ctx context.Context) error {
					ctx = store.Undecided(ctx, "a test")
					begin, err := rootkey.New(k, "old", table, time.Now).Begin(ctx, fmt.Sprint("op-", i), "auditor")
					if err != nil {
						return err
					}
					return table.Commit(ctx, begin...)
				})
			})
		}
		all.Wait()
		rotating, going := 0, 0
		for i := range 2 {
			if begun[i] == nil {
				rotating++
			} else if !fault.Is(begun[i], fault.Conflict) {
				t.Fatalf("run %d: a rotation is answered %v", n, begun[i])
			}
			if over[i] == nil {
				going++
			} else if !strings.Contains(over[i].Error(), "the root key is being rotated, and nothing was changed") {
				t.Fatalf("run %d: going over is answered %v", n, over[i])
			}
		}
		if rotating > 1 || rotating == 1 && going > 0 || rotating == 0 && going != 2 {
			t.Fatalf("run %d: %d rotations and %d goings over have begun", n, rotating, going)
		}
		if !opens(t, k, "old", table, root) {
			t.Fatalf("run %d: the root key is lost", n)
		}
	}
}

// TestKeyOfAnotherRegionIsRefused by its ARN; an id, an alias or what is no ARN is KMS's to judge.
func TestKeyOfAnotherRegionIsRefused(t *testing.T) {
	for key, want := range map[string]bool{
		"arn:aws:kms:eu-west-1:000000000000:key/k":          true,
		"arn:aws:kms:us-east-1:000000000000:key/k":          false,
		"arn:aws-us-gov:kms:us-gov-west-1:000000000000:key": false,
		"arn:aws:kms:eu-west-1:000000000000:key/mrk-1":      true,
		"arn:aws:kms::000000000000:key/k":                   false,
		"arn:aws:kms":                                       true,
		"00000000-0000-0000-0000-000000000000":              true,
		"alias/gatewright":                                  true,
		"":                                                  true,
	} {
		err := rootkey.OfRegion(key, "eu-west-1")
		if (err == nil) != want || err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "eu-west-1")) {
			t.Errorf("%q is answered %v", key, err)
		}
	}
}

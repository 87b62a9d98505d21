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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

func initiator() rootkey.Initiator { return rootkey.Initiator{By: "auditor", At: time.Now()} }

// canUnwrap reports whether a process that has just started with a KMS key can unwrap the root key.
func canUnwrap(t *testing.T, k *rootkeytest.KMS, id string, table *store.Table, root []byte) bool {
	t.Helper()
	got, err := rootkey.New(k, id, table, time.Now).Root(t.Context())
	if err == nil && !bytes.Equal(got, root) {
		t.Fatalf("Root() with the KMS key %s = another root key, want the same", id)
	}
	return err == nil
}

// TestChangeOfKMSKey checks the two steps of a change of the KMS key, which can both be repeated. Between the
// steps both KMS keys unwrap the root key, and after them only the new KMS key does. The root key does not change.
func TestChangeOfKMSKey(t *testing.T) {
	k, table := rootkeytest.New("old", "new", "third"), storetest.New(t)
	if err := rootkey.AddKMSKey(t.Context(), k, "old", "new", table, initiator()); !errors.Is(err, rootkey.ErrNoRootKey) {
		t.Errorf("AddKMSKey() without a root key = %v, want %v", err, rootkey.ErrNoRootKey)
	}
	root, err := rootkey.New(k, "old", table, time.Now).Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := rootkey.KeepOnlyKMSKey(t.Context(), k, "new", table, initiator()); err == nil ||
		!strings.Contains(err.Error(), "nothing was changed: begin with rewrap-root-key") {
		t.Errorf("KeepOnlyKMSKey() before AddKMSKey() = %v, want an error that names the command to begin with", err)
	}
	for range 2 {
		if err := rootkey.AddKMSKey(t.Context(), k, "old", "new", table, initiator()); err != nil {
			t.Fatalf("AddKMSKey() from old to new = %v, want success", err)
		}
		if !canUnwrap(t, k, "old", table, root) || !canUnwrap(t, k, "new", table, root) ||
			canUnwrap(t, k, "third", table, root) {
			t.Fatalf("KMS keys after AddKMSKey(): old unwraps %t, new %t, third %t, want true, true, false",
				canUnwrap(t, k, "old", table, root), canUnwrap(t, k, "new", table, root), canUnwrap(t, k, "third", table, root))
		}
	}
	if got, err := rootkey.Export(t.Context(), k, "new", table); err != nil || !bytes.Equal(got.Key, root) {
		t.Errorf("Export() with the new KMS key = %x, %v, want the root key %x", got.Key, err, root)
	}
	if err := rootkey.AddKMSKey(t.Context(), k, "old", "third", table, initiator()); !fault.Is(err, fault.Conflict) {
		t.Errorf("AddKMSKey() with a third KMS key = %v, want a conflict", err)
	}
	if _, err := rootkey.New(k, "old", table, time.Now).Begin(t.Context(), "op", "auditor"); !fault.Is(err,
		fault.Conflict) {
		t.Errorf("Begin() with two KMS keys = %v, want a conflict", err)
	}
	if err := rootkey.KeepOnlyKMSKey(t.Context(), k, "third", table, initiator()); err == nil ||
		!strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("KeepOnlyKMSKey() with another KMS key = %v, want an error with \"nothing was changed\"", err)
	}
	for range 2 {
		if err := rootkey.KeepOnlyKMSKey(t.Context(), k, "new", table, initiator()); err != nil {
			t.Fatalf("KeepOnlyKMSKey(new) = %v, want success", err)
		}
		if canUnwrap(t, k, "old", table, root) || !canUnwrap(t, k, "new", table, root) {
			t.Fatalf("KMS keys after KeepOnlyKMSKey(new): old unwraps %t, new %t, want false, true",
				canUnwrap(t, k, "old", table, root), canUnwrap(t, k, "new", table, root))
		}
	}
	h, err := rootkey.History(t.Context(), table)
	if err != nil || len(h) != 2 {
		t.Fatalf("History() = %+v, %v, want 2 events", h, err)
	}
	if h[0].Kind != rootkey.KMSKeyRemoved || h[0].To != "new" {
		t.Errorf("last event = %+v, want kind %v to new", h[0], rootkey.KMSKeyRemoved)
	}
	if h[1].Kind != rootkey.KMSKeyAdded || h[1].From != "old" || h[1].To != "new" {
		t.Errorf("first event = %+v, want kind %v from old to new", h[1], rootkey.KMSKeyAdded)
	}
	if h[1].By != "auditor" || h[1].Number != 1 {
		t.Errorf("first event = %+v, want number 1 by auditor", h[1])
	}
	if err := rootkey.AddKMSKey(t.Context(), k, "old", "new", table, initiator()); err == nil {
		t.Error("AddKMSKey() from the old KMS key after KeepOnlyKMSKey(new) succeeds, want an error")
	}
	if err := rootkey.AddKMSKey(t.Context(), k, "new", "old", table, initiator()); err != nil {
		t.Errorf("AddKMSKey() from new to old = %v, want success", err)
	}
	if !canUnwrap(t, k, "old", table, root) {
		t.Error("the KMS key old does not unwrap the root key after AddKMSKey() from new to old, want it to")
	}
}

// TestSameKMSKeyIsRefused checks that AddKMSKey refuses any name of the current KMS key. Otherwise the installation
// would wait for the end of a change that changes nothing, and could not rotate its root key meanwhile.
func TestSameKMSKeyIsRefused(t *testing.T) {
	k, table := rootkeytest.New("old"), storetest.New(t)
	if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"old", "arn:aws:kms:eu-west-1:000000000000:key/old"} {
		if err := rootkey.AddKMSKey(t.Context(), k, "old", to, table, initiator()); !errors.Is(err, rootkey.ErrSameKey) {
			t.Errorf("AddKMSKey() from old to %s = %v, want %v", to, err, rootkey.ErrSameKey)
		}
	}
	if h, err := rootkey.History(t.Context(), table); err != nil || len(h) != 0 {
		t.Errorf("History() = %v, %v, want no events", h, err)
	}
	if _, err := rootkey.New(k, "old", table, time.Now).Begin(t.Context(), "op", "auditor"); err != nil {
		t.Errorf("Begin() after the refused changes of the KMS key = %v, want success", err)
	}
}

// TestUnusableKMSKeyIsRefused checks that AddKMSKey refuses to change to a KMS key that
// is disabled or in another region, and to change from a disabled KMS key.
func TestUnusableKMSKeyIsRefused(t *testing.T) {
	k, items := rootkeytest.New("old", "disabled"), memory.New()
	table := storetest.NewWithBackend(t, items)
	if _, err := rootkey.New(k, "old", table, time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Disable("disabled")
	before := items.Items()[store.KeyPrefix("root-key").Key()]
	for _, to := range []string{"disabled", "arn:aws:kms:eu-west-1:000000000000:key/remote"} {
		if err := rootkey.AddKMSKey(t.Context(), k, "old", to, table, initiator()); err == nil {
			t.Errorf("AddKMSKey() to %s succeeds, want an error", to)
		}
	}
	if err := rootkey.AddKMSKey(t.Context(), k, "disabled", "old", table, initiator()); err == nil ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("AddKMSKey() from a disabled KMS key = %v, want an error of one line", err)
	}
	if !store.EqualItems(before, items.Items()[store.KeyPrefix("root-key").Key()]) {
		t.Error("the refused calls changed the record, want no change")
	}
}

// lossyBackend loses the reply to the next transaction, or the transaction itself.
type lossyBackend struct {
	store.Backend
	failBefore, failAfter bool
}

var errKilled = errors.New("the process was killed")

func (l *lossyBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	before, after := l.failBefore, l.failAfter
	l.failBefore, l.failAfter = false, false
	if before {
		return errKilled
	}
	err := l.Backend.Transact(ctx, token, writes)
	if err == nil && after {
		err = errKilled
	}
	return err
}

// TestChangeOfKMSKeySurvivesKill kills the process before or after each of the
// two writes. It checks that repeating the command then completes the change.
func TestChangeOfKMSKeySurvivesKill(t *testing.T) {
	for _, c := range []struct {
		finish bool // whether the killed step is KeepOnlyKMSKey, otherwise AddKMSKey
		after  bool // whether the kill is after the write
	}{{}, {after: true}, {finish: true}, {finish: true, after: true}} {
		k, l := rootkeytest.New("old", "new"), &lossyBackend{Backend: memory.New()}
		table := storetest.NewWithBackend(t, l)
		root, err := rootkey.New(k, "old", table, time.Now).Root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		steps := []func() error{
			func() error { return rootkey.AddKMSKey(t.Context(), k, "old", "new", table, initiator()) },
			func() error { return rootkey.KeepOnlyKMSKey(t.Context(), k, "new", table, initiator()) },
		}
		for i, step := range steps {
			if c.finish == (i == 1) {
				l.failBefore, l.failAfter = !c.after, c.after
				if err := step(); !errors.Is(err, errKilled) {
					t.Fatalf("%+v: killed step = %v, want %v", c, err, errKilled)
				}
				if !canUnwrap(t, k, "new", table, root) && !canUnwrap(t, k, "old", table, root) {
					t.Fatalf("%+v: no KMS key unwraps the root key after a kill, want one", c)
				}
			}
			if err := step(); err != nil {
				t.Fatalf("%+v: repeated step = %v, want success", c, err)
			}
		}
		if canUnwrap(t, k, "old", table, root) || !canUnwrap(t, k, "new", table, root) {
			t.Errorf("%+v: in the end the KMS key old unwraps %t, new %t, want false, true",
				c, canUnwrap(t, k, "old", table, root), canUnwrap(t, k, "new", table, root))
		}
	}
}

// TestRotationExcludesChangeOfKMSKey starts two rotations and the same change of the KMS key twice, all four at the
// same time. It checks that either one rotation or both calls of AddKMSKey succeed, that all other calls are refused,
// and that the old KMS key can unwrap the root key afterwards.
func TestRotationExcludesChangeOfKMSKey(t *testing.T) {
	for n := range 30 {
		k, table := rootkeytest.New("old", "new"), storetest.New(t)
		root, err := rootkey.New(k, "old", table, time.Now).Root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		rewrapErrs, beginErrs := make([]error, 2), make([]error, 2)
		for i := range 2 {
			wg.Go(func() { rewrapErrs[i] = rootkey.AddKMSKey(t.Context(), k, "old", "new", table, initiator()) })
			wg.Go(func() {
				beginErrs[i] = table.RunInTx(t.Context(), func(ctx context.Context) error {
					ctx = store.WithoutReadSet(ctx, "a test")
					writes, err := rootkey.New(k, "old", table, time.Now).Begin(ctx, fmt.Sprint("op-", i), "auditor")
					if err != nil {
						return err
					}
					return table.Commit(ctx, writes...)
				})
			})
		}
		wg.Wait()
		rotations, rewraps := 0, 0
		for i := range 2 {
			if beginErrs[i] == nil {
				rotations++
			} else if !fault.Is(beginErrs[i], fault.Conflict) {
				t.Fatalf("run %d: Begin() = %v, want success or a conflict", n, beginErrs[i])
			}
			if rewrapErrs[i] == nil {
				rewraps++
			} else if !strings.Contains(rewrapErrs[i].Error(), "the root key is being rotated, and nothing was changed") {
				t.Fatalf("run %d: AddKMSKey() = %v, want success or the error of a rotation", n, rewrapErrs[i])
			}
		}
		if rotations > 1 || rotations == 1 && rewraps > 0 || rotations == 0 && rewraps != 2 {
			t.Fatalf("run %d: %d rotations and %d changes of the KMS key begin, want one rotation, or both changes",
				n, rotations, rewraps)
		}
		if !canUnwrap(t, k, "old", table, root) {
			t.Fatalf("run %d: the KMS key old does not unwrap the root key, want it to", n)
		}
	}
}

// TestKeyOfAnotherRegionIsRefused checks that CheckRegion refuses ARNs of
// other regions. It accepts ids, aliases and other texts, which KMS checks.
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
		err := rootkey.CheckRegion(key, "eu-west-1")
		if (err == nil) != want {
			t.Errorf("CheckRegion(%q, eu-west-1) = %v, want success %t", key, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "eu-west-1")) {
			t.Errorf("CheckRegion(%q, eu-west-1) = %q, want an error of one line that names eu-west-1", key, err)
		}
	}
}

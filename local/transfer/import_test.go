package transfer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// failingBackend is a table in memory. Its first transactions succeed, as many as remaining says. All later
// transactions return errUnreachable. If commitsFailed is true, these are committed nevertheless, as if only their
// responses were lost.
type failingBackend struct {
	*memory.Backend
	remaining     int
	commitsFailed bool
	// onCommit is called after each transaction.
	onCommit func(writes []store.Write)
}

var errUnreachable = errors.New("unreachable")

func (f *failingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if f.remaining == 0 && !f.commitsFailed {
		return errUnreachable
	}
	err := f.Backend.Transact(ctx, token, writes)
	if err == nil && f.onCommit != nil {
		f.onCommit(writes)
	}
	if f.remaining--; f.remaining < 0 {
		return errUnreachable
	}
	return err
}

// TestInterruptedImportResumes interrupts the import at each of its transactions, before or after the commit,
// and continues it with the same call. Items that the target has deleted meanwhile must not be imported again.
func TestInterruptedImportResumes(t *testing.T) {
	fx := newFilled(t)
	file, key := export(t, fx.source())
	for _, commitsFailed := range []bool{false, true} {
		transactions := 0
		for ; ; transactions++ {
			if transactions > 50 {
				t.Fatalf("the import has %d transactions, want at most 50", transactions)
			}
			target, k := newEmptyFixture(), &fakeKeeper{}
			_, err := transfer.Import(t.Context(), file, key,
				newRemote(t, target,
					&failingBackend{Backend: target.table, remaining: transactions, commitsFailed: commitsFailed}, k))
			if err == nil {
				break
			}
			if !errors.Is(err, errUnreachable) {
				t.Fatalf("Import() interrupted after %d transactions = %v, want %v", transactions, err, errUnreachable)
			}
			want := fx.table.Items()
			for itemKey := range target.table.Items() {
				// Delete an item, as an operation of the target would do after it has processed the item.
				if itemKey.PK == "kinds#2" {
					if err := target.table.Transact(t.Context(), "removed", []store.Write{store.Delete(itemKey)}); err != nil {
						t.Fatal(err)
					}
					delete(want, itemKey)
					break
				}
			}
			// If the last transaction was committed, the import is complete, and cannot be repeated.
			if _, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, k)); err != nil &&
				!(commitsFailed && errors.Is(err, transfer.ErrNotEmpty)) {
				t.Fatalf("Import() resumed after %d transactions = %v, want success", transactions, err)
			}
			if diff := cmp.Diff(want, target.table.Items(), sameItems); diff != "" {
				t.Fatalf("items after %d transactions differ (-want +got):\n%s", transactions, diff)
			}
			if diff := cmp.Diff(objectsOf(t, fx.objects, false), objectsOf(t, target.objects, false)); diff != "" {
				t.Fatalf("objects after %d transactions differ (-want +got):\n%s", transactions, diff)
			}
		}
		if transactions < 8 {
			t.Errorf("the import is interrupted at %d places, want at least 8", transactions)
		}
	}
}

// TestLiveItemsComeLast checks that items that trigger functions are stored
// after all other items, and uploads after the records of their builds.
func TestLiveItemsComeLast(t *testing.T) {
	fx := newFilled(t)
	file, key := export(t, fx.source())
	target := newEmptyFixture()
	plain, due, live := 0, 0, 0
	for itemKey := range fx.table.Items() {
		switch itemKey.PK {
		case "kinds#1":
			due++
		case "kinds#2":
			live++
		default:
			plain++
		}
	}
	if due == 0 || live == 0 {
		t.Fatalf("the export has %d due and %d live items, want some of both", due, live)
	}
	var plainSeen, dueSeen int
	checkOrder := func(writes []store.Write) {
		for _, write := range writes {
			switch write.Key.PK {
			case "kinds#1":
				if dueSeen++; plainSeen != plain {
					t.Errorf("a due item is written after %d plain items, want all %d before it", plainSeen, plain)
				}
			case "kinds#2":
				if plainSeen != plain || dueSeen != due {
					t.Errorf("a live item is written after %d plain and %d due items, want all %d and %d before it", plainSeen,
						dueSeen, plain, due)
				}
				if n := len(objectsOf(t, target.objects, false)); n != 3 {
					t.Errorf("a live item is written after %d objects, want 3", n)
				}
			case "import#.", "import":
			default:
				plainSeen++
			}
		}
	}
	if _, err := transfer.Import(t.Context(), file, key,
		newRemote(t, target, &failingBackend{Backend: target.table, remaining: -1, commitsFailed: true, onCommit: checkOrder},
			&fakeKeeper{})); err == nil {
		t.Fatal("Import(lost first commit) error = nil, want one")
	}
	r := newRemote(t, target, &failingBackend{Backend: target.table, remaining: 1 << 30, onCommit: checkOrder},
		&fakeKeeper{root: root})
	if _, err := transfer.Import(t.Context(), file, key, r); err != nil {
		t.Fatal(err)
	}
}

// TestUsedTargetIsRefused checks that Import returns ErrNotEmpty for a target with data,
// and does not change the target. A root key alone is not such data.
func TestUsedTargetIsRefused(t *testing.T) {
	file, key := smallExport(t)
	tests := map[string]func(*fixture){
		"an item":   func(fx *fixture) { fx.put(t, itemAt(store.KeyIn("a", "b"), nil)) },
		"an object": func(fx *fixture) { fx.objects.Upload("sources/x", []byte("x")) },
	}
	for name, modify := range tests {
		t.Run(name, func(t *testing.T) {
			target, k := newEmptyFixture(), &fakeKeeper{}
			modify(target)
			items, objects := target.table.Items(), objectsOf(t, target.objects, true)
			_, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, k))
			if !errors.Is(err, transfer.ErrNotEmpty) || strings.Contains(err.Error(), "\n") || k.root != nil {
				t.Errorf("Import(used target) = %v, adopted key %q, want %v in one line and no key", err, k.root,
					transfer.ErrNotEmpty)
			}
			if diff := cmp.Diff(items, target.table.Items(), sameItems); diff != "" {
				t.Errorf("items of a used target after Import() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(objects, objectsOf(t, target.objects, true)); diff != "" {
				t.Errorf("objects of a used target after Import() (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a root key alone", func(t *testing.T) {
		target := newEmptyFixture()
		target.put(t, itemAt(store.KeyPrefix("root-key").Key(), nil))
		if _, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, &fakeKeeper{})); err != nil {
			t.Errorf("Import(target with a root key alone) = %v, want success", err)
		}
	})
	t.Run("an imported installation", func(t *testing.T) {
		target, k := newEmptyFixture(), &fakeKeeper{}
		r := newRemote(t, target, target.table, k)
		if _, err := transfer.Import(t.Context(), file, key, r); err != nil {
			t.Fatal(err)
		}
		if _, err := transfer.Import(t.Context(), file, key, r); !errors.Is(err, transfer.ErrNotEmpty) {
			t.Errorf("second Import() = %v, want %v", err, transfer.ErrNotEmpty)
		}
	})
}

// TestUnfinishedImportResumesOnlyWithTheSameFile checks that an unfinished import cannot be
// continued with another file or another root key, and that it cannot be exported.
func TestUnfinishedImportResumesOnlyWithTheSameFile(t *testing.T) {
	file, key := export(t, newFilled(t).source())
	other, otherKey := smallExport(t)
	target, k := newEmptyFixture(), &fakeKeeper{}
	_, err := transfer.Import(t.Context(), file, key,
		newRemote(t, target, &failingBackend{Backend: target.table, remaining: 3}, k))
	if !errors.Is(err, errUnreachable) {
		t.Fatalf("interrupted Import() = %v, want %v", err, errUnreachable)
	}
	before := target.table.Items()
	if _, err := transfer.Import(t.Context(), other, otherKey, newRemote(t, target, target.table, k)); err == nil ||
		!strings.Contains(err.Error(), "another file") {
		t.Errorf("Import(another file) = %v, want an error with \"another file\"", err)
	}
	if _, err := transfer.Import(t.Context(), file, key,
		newRemote(t, target, target.table, &fakeKeeper{root: []byte("other")})); err == nil ||
		!strings.Contains(err.Error(), "another root key") {
		t.Errorf("Import(another root key) = %v, want an error with \"another root key\"", err)
	}
	if diff := cmp.Diff(before, target.table.Items(), sameItems); diff != "" {
		t.Errorf("items after refused imports (-want +got):\n%s", diff)
	}
	s := target.source()
	if _, err := transfer.Write(t.Context(), s, key, &limitedWriter{1 << 30, nil}); err == nil ||
		!strings.Contains(err.Error(), "finish it first") {
		t.Errorf("Write(unfinished import) = %v, want an error with \"finish it first\"", err)
	}
	if _, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, k)); err != nil {
		t.Errorf("Import(the same file) = %v, want success", err)
	}
}

// TestConcurrentlyWrittenTargetIsRefused checks that an import fails
// if another import or another program writes to the target meanwhile.
func TestConcurrentlyWrittenTargetIsRefused(t *testing.T) {
	file, key := export(t, newFilled(t).source())
	t.Run("another import", func(t *testing.T) {
		target, k := newEmptyFixture(), &fakeKeeper{}
		imported := false
		backend := &failingBackend{Backend: target.table, remaining: 1 << 30}
		backend.onCommit = func([]store.Write) {
			if imported {
				return
			}
			imported = true
			if _, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, k)); err != nil {
				t.Errorf("faster concurrent Import() = %v, want success", err)
			}
		}
		_, err := transfer.Import(t.Context(), file, key, newRemote(t, target, backend, k))
		if err == nil || !strings.Contains(err.Error(), "another import") {
			t.Errorf("slower concurrent Import() = %v, want an error with \"another import\"", err)
		}
	})
	t.Run("another program", func(t *testing.T) {
		target, k := newEmptyFixture(), &fakeKeeper{}
		backend := &failingBackend{Backend: target.table, remaining: 1 << 30}
		itemKey := store.KeyIn("things", "0299")
		backend.onCommit = func([]store.Write) {
			if target.table.Items()[itemKey] == nil {
				target.put(t, itemAt(itemKey, store.Item{"own": textValue("x")}))
			}
		}
		_, err := transfer.Import(t.Context(), file, key, newRemote(t, target, backend, k))
		if err == nil || !strings.Contains(err.Error(), "somebody else has written") ||
			target.table.Items()[itemKey]["own"] == nil {
			t.Errorf("Import() = %v, item %v, want \"somebody else has written\" and the other's item kept", err,
				target.table.Items()[itemKey])
		}
	})
}

// TestFailedAdoptionOfRootKeyEndsTheImport checks that Import stores
// no items if the target's keeper does not adopt the root key.
func TestFailedAdoptionOfRootKeyEndsTheImport(t *testing.T) {
	file, key := smallExport(t)
	target := newEmptyFixture()
	_, err := transfer.Import(t.Context(), file, key, newRemote(t, target, target.table, &fakeKeeper{err: errUnreachable}))
	if !errors.Is(err, errUnreachable) || len(target.table.Items()) > 0 {
		t.Errorf("Import(failed adoption) = %v with %d items, want %v and none", err, len(target.table.Items()),
			errUnreachable)
	}
}

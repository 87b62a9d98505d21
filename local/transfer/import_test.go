package transfer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// failing is a table that cannot be reached from some transaction on, which it has made or not.
type failing struct {
	*memory.Backend
	left int
	made bool
	// after is called after each transaction.
	after func(writes []store.Write)
}

var errGone = errors.New("gone")

func (f *failing) Transact(ctx context.Context, token string, writes []store.Write) error {
	if f.left == 0 && !f.made {
		return errGone
	}
	err := f.Backend.Transact(ctx, token, writes)
	if err == nil && f.after != nil {
		f.after(writes)
	}
	if f.left--; f.left < 0 {
		return errGone
	}
	return err
}

// TestInterruptedImportGoesOn: it ends at each of its transactions, with that one made or not, and
// the same call goes on. What the target's operations have removed meanwhile does not come again.
func TestInterruptedImportGoesOn(t *testing.T) {
	w := made(t)
	file, key := export(t, w.source())
	for _, made := range []bool{false, true} {
		ends := 0
		for ; ; ends++ {
			if ends > 50 {
				t.Fatal("it has no end")
			}
			to, k := empty(), &keeper{}
			_, err := transfer.Import(t.Context(), file, key, remote(t, to, &failing{Backend: to.table, left: ends, made: made}, k))
			if err == nil {
				break
			}
			if !errors.Is(err, errGone) {
				t.Fatalf("after %d transactions it is answered with %v", ends, err)
			}
			want := w.table.Items()
			for at := range to.table.Items() {
				// An operation of the target has done what an item was for.
				if at.PK == "kinds#2" {
					if err := to.table.Transact(t.Context(), "removed", []store.Write{store.Delete(at)}); err != nil {
						t.Fatal(err)
					}
					delete(want, at)
					break
				}
			}
			if _, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, k)); err != nil && !(made && errors.Is(err, transfer.ErrNotEmpty)) {
				t.Fatalf("after %d transactions it does not go on: %v", ends, err)
			}
			if diff := cmp.Diff(want, to.table.Items(), sameItems); diff != "" {
				t.Fatalf("after %d transactions: %s", ends, diff)
			}
			if diff := cmp.Diff(objectsOf(t, w.objects, false), objectsOf(t, to.objects, false)); diff != "" {
				t.Fatalf("after %d transactions: %s", ends, diff)
			}
		}
		if ends < 8 {
			t.Errorf("it was interrupted at %d places alone", ends)
		}
	}
}

// TestLiveItemsComeLast: what is acted on finds all else, and uploads find the records of their builds.
func TestLiveItemsComeLast(t *testing.T) {
	w := made(t)
	file, key := export(t, w.source())
	to := empty()
	plain, due, live := 0, 0, 0
	for at := range w.table.Items() {
		switch at.PK {
		case "kinds#1":
			due++
		case "kinds#2":
			live++
		default:
			plain++
		}
	}
	if due == 0 || live == 0 {
		t.Fatal("there is nothing to look at")
	}
	var seen, dueSeen int
	count := func(writes []store.Write) {
		for _, write := range writes {
			switch write.Key.PK {
			case "kinds#1":
				if dueSeen++; seen != plain {
					t.Errorf("one that is due comes with %d of %d plain ones", seen, plain)
				}
			case "kinds#2":
				if seen != plain || dueSeen != due {
					t.Errorf("a live one comes with %d of %d plain ones and %d of %d due ones", seen, plain, dueSeen, due)
				}
				if n := len(objectsOf(t, to.objects, false)); n != 3 {
					t.Errorf("a live one comes with %d objects", n)
				}
			case "import#.", "import":
			default:
				seen++
			}
		}
	}
	if _, err := transfer.Import(t.Context(), file, key, remote(t, to, &failing{Backend: to.table, left: -1, made: true, after: count}, &keeper{})); err == nil {
		t.Fatal("the first commit is not lost")
	}
	r := remote(t, to, &failing{Backend: to.table, left: 1 << 30, after: count}, &keeper{root: root})
	if _, err := transfer.Import(t.Context(), file, key, r); err != nil {
		t.Fatal(err)
	}
}

// TestUsedTargetIsRefused, and left as it is.
func TestUsedTargetIsRefused(t *testing.T) {
	file, key := small(t)
	tests := map[string]func(w *world){
		"an item":   func(w *world) { w.put(t, itemAt(store.In("a", "b"), nil)) },
		"an object": func(w *world) { w.objects.Upload("sources/x", []byte("x")) },
	}
	for name, use := range tests {
		t.Run(name, func(t *testing.T) {
			to, k := empty(), &keeper{}
			use(to)
			items, objects := to.table.Items(), objectsOf(t, to.objects, true)
			_, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, k))
			if !errors.Is(err, transfer.ErrNotEmpty) || strings.Contains(err.Error(), "\n") || k.root != nil {
				t.Errorf("it is answered with %v", err)
			}
			if diff := cmp.Diff(items, to.table.Items(), sameItems); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(objects, objectsOf(t, to.objects, true)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("its root key alone", func(t *testing.T) {
		to := empty()
		to.put(t, itemAt(store.Space("root-key").Key(), nil))
		if _, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, &keeper{})); err != nil {
			t.Error(err)
		}
	})
	t.Run("imported", func(t *testing.T) {
		to, k := empty(), &keeper{}
		r := remote(t, to, to.table, k)
		if _, err := transfer.Import(t.Context(), file, key, r); err != nil {
			t.Fatal(err)
		}
		if _, err := transfer.Import(t.Context(), file, key, r); !errors.Is(err, transfer.ErrNotEmpty) {
			t.Errorf("a second time it is answered with %v", err)
		}
	})
}

// TestUnfinishedImportIsNobodyElses: another file does not go on with it, nor another root key, and
// nobody exports half of one.
func TestUnfinishedImportIsNobodyElses(t *testing.T) {
	file, key := export(t, made(t).source())
	other, otherKey := small(t)
	to, k := empty(), &keeper{}
	_, err := transfer.Import(t.Context(), file, key, remote(t, to, &failing{Backend: to.table, left: 3}, k))
	if !errors.Is(err, errGone) {
		t.Fatal(err)
	}
	before := to.table.Items()
	if _, err := transfer.Import(t.Context(), other, otherKey, remote(t, to, to.table, k)); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("another file is answered with %v", err)
	}
	if _, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, &keeper{root: []byte("other")})); err == nil || !strings.Contains(err.Error(), "another root key") {
		t.Errorf("another root key is answered with %v", err)
	}
	if diff := cmp.Diff(before, to.table.Items(), sameItems); diff != "" {
		t.Error(diff)
	}
	s := to.source()
	if _, err := transfer.Write(t.Context(), s, key, &full{1 << 30, nil}); err == nil || !strings.Contains(err.Error(), "finish it first") {
		t.Errorf("an export of it is answered with %v", err)
	}
	if _, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, k)); err != nil {
		t.Error(err)
	}
}

// TestTargetThatIsWrittenToIsRefused: by another import, or by anybody.
func TestTargetThatIsWrittenToIsRefused(t *testing.T) {
	file, key := export(t, made(t).source())
	t.Run("another import", func(t *testing.T) {
		to, k := empty(), &keeper{}
		once := false
		slow := &failing{Backend: to.table, left: 1 << 30}
		slow.after = func([]store.Write) {
			if once {
				return
			}
			once = true
			if _, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, k)); err != nil {
				t.Error(err)
			}
		}
		_, err := transfer.Import(t.Context(), file, key, remote(t, to, slow, k))
		if err == nil || !strings.Contains(err.Error(), "another import") {
			t.Errorf("the slower one is answered with %v", err)
		}
	})
	t.Run("anybody", func(t *testing.T) {
		to, k := empty(), &keeper{}
		slow := &failing{Backend: to.table, left: 1 << 30}
		at := store.In("things", "0299")
		slow.after = func([]store.Write) {
			if to.table.Items()[at] == nil {
				to.put(t, itemAt(at, store.Item{"own": text("x")}))
			}
		}
		_, err := transfer.Import(t.Context(), file, key, remote(t, to, slow, k))
		if err == nil || !strings.Contains(err.Error(), "somebody else has written") || to.table.Items()[at]["own"] == nil {
			t.Errorf("it is answered with %v", err)
		}
	})
}

// TestRootKeyThatIsNotTakenEndsTheImport before anything is stored.
func TestRootKeyThatIsNotTakenEndsTheImport(t *testing.T) {
	file, key := small(t)
	to := empty()
	_, err := transfer.Import(t.Context(), file, key, remote(t, to, to.table, &keeper{refuses: errGone}))
	if !errors.Is(err, errGone) || len(to.table.Items()) > 0 {
		t.Errorf("answered with %v, with %d items", err, len(to.table.Items()))
	}
}

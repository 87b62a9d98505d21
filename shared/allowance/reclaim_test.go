package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestTwoWhoTakeBackDoItOnce: the second one begins and ends while the first one is
// between its look and its write.
func TestTwoWhoTakeBackDoItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		dead, other := table.quotas(1), table.quotas(2)
		spendSome(t, dead, a, 50)
		begun, reserve := dead.held(a)
		spendSome(t, other, a, 200) // else the record would not have so much to lose
		before := used(t, other, a)
		if err := other.Drain(t.Context()); err != nil || reserve == 0 {
			t.Fatal(err)
		}
		before = min(before, used(t, other, a))
		time.Sleep(deadAfter + dueStep + time.Second)
		take := func() error { return Reclaim(t.Context(), other.table, time.Now()) }
		second := func(token string, writes []store.Write) error {
			if err := take(); err != nil {
				t.Error(err)
			}
			return table.Backend.Transact(t.Context(), token, writes)
		}
		table.instead = func(token string, writes []store.Write) error { // it marks the journal
			table.instead = second
			return table.Backend.Transact(t.Context(), token, writes)
		}
		if err := take(); err != nil {
			t.Fatal(err)
		}
		if got := used(t, other, a); got != before-reserve || got != 250+begun {
			t.Errorf("%d are used, %d before, %d came back", got, before, reserve)
		}
	})
}

// TestWhoWritesIsNotDead, also when the sweep has seen its journal a moment before.
func TestWhoWritesIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10_000)
		q, other := table.quotas(1), table.quotas(2)
		spendSome(t, q, a, 50)
		time.Sleep(deadAfter + dueStep + time.Second)
		table.instead = func(token string, writes []store.Write) error { // it would mark the journal
			begun, _ := q.held(a)
			spendSome(t, q, a, int(begun)+1)
			return table.Backend.Transact(t.Context(), token, writes)
		}
		if err := Reclaim(t.Context(), other.table, time.Now()); err != nil {
			t.Fatal(err)
		}
		begun, reserve := q.held(a)
		if reserve == 0 {
			t.Fatal("it is held to be dead")
		}
		spendSome(t, q, a, int(begun+reserve))
		begun, reserve = q.held(a)
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, spent := used(t, q, a), q.pool.find(a.period(), a.Limit).spent(); got != spent {
			t.Errorf("%d are used, %d were admitted; it held %d and %d", got, spent, begun, reserve)
		}
	})
}

// TestManyQuotasComeBack from an instance that held more than a journal takes, where one of the
// records is gone.
func TestManyQuotasComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		dead := table.quotas(1)
		var all []Allowance
		for k := range 2*maxEntries + 9 {
			a := month(10_000)
			a.Name = fmt.Sprint("subscription ", k)
			all = append(all, a)
		}
		const each = 30
		for range each {
			for _, a := range all {
				mustTake(t, dead.pool, a, 1)
				synctest.Wait()
			}
			time.Sleep(100 * time.Millisecond)
		}
		held := 0
		for _, a := range all {
			if _, reserve := dead.held(a); reserve > 0 {
				held++
			}
		}
		if n := len(dead.pool.books.(*journals).all); held < 2*maxEntries || n < 3 {
			t.Fatalf("%d quotas are held in %d journals: this test shows nothing", held, n)
		}
		if err := dead.table.Commit(t.Context(), store.Delete(all[3].period().key())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		// One that fails is tried again.
		calls := 0
		table.before = func(context.Context) error {
			if calls++; calls == 6 {
				return errSimulated
			}
			return nil
		}
		if err := Reclaim(t.Context(), dead.table, time.Now()); !errors.Is(err, errSimulated) {
			t.Errorf("answers %v", err)
		}
		if err := Reclaim(t.Context(), dead.table, time.Now()); err != nil {
			t.Error(err)
		}
		for k, a := range all {
			begun, reserve := dead.held(a)
			want := each + begun
			if k == 3 {
				want = 0
			}
			if got := used(t, dead, a); got != want {
				t.Errorf("quota %d: %d are used, want %d; it held %d and %d", k, got, want, begun, reserve)
			}
		}
		keys, err := dead.table.Keys(t.Context(), store.Query{Index: store.DueIndex, PK: duePartition()})
		if err != nil || len(keys) != 0 {
			t.Errorf("%d journals are still looked for, %v", len(keys), err)
		}
	})
}

func TestUnitsThatServeNobodyStayForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10)
		q, other := table.quotas(1), table.quotas(2)
		mustTake(t, q.pool, a, 8)
		if d := mustTake(t, q.pool, a, 3); d.Admitted {
			t.Fatal("more than there is")
		}
		reads := table.reads.Load()
		if d := mustTake(t, q.pool, a, 3); d.Admitted || table.reads.Load() != reads {
			t.Errorf("refused before, and asked again: %+v, %d reads", d, table.reads.Load()-reads)
		}
		if d := mustTake(t, other.pool, a, 1); !d.Admitted {
			t.Error("what is left is not to be had elsewhere")
		}
		if d := mustTake(t, q.pool, a, 1); !d.Admitted {
			t.Error("what is left is not to be had here")
		}
	})
}

// TestQuotasAreTheSameOnBoth tables.
func TestQuotasAreTheSameOnBoth(t *testing.T) {
	onBoth(t, func(t *testing.T, l ledger) {
		var passed atomic.Int64 // of the clock, which sweeps read meanwhile
		clock := func() time.Time { return storetest.Epoch.Add(time.Duration(passed.Load())) }
		pass := func(d time.Duration) { passed.Add(int64(d)) }
		open := func(nth byte) *Quotas {
			return NewQuotas(Options{Table: l.table, Now: clock, Random: rand.NewChaCha8([32]byte{nth}), Log: slog.New(slog.DiscardHandler)})
		}
		dead, q := open(1), open(2)
		a := Allowance{Name: "a", Limit: 10_000, From: storetest.Epoch, To: storetest.Epoch.AddDate(0, 1, 0)}
		for range 20 {
			mustTake(t, dead.pool, a, 1)
			pass(10 * time.Millisecond)
		}
		for range 100 { // the lease that nobody waits for
			if _, reserve := dead.held(a); reserve > 0 {
				break
			}
			mustTake(t, dead.pool, a, 1)
			pass(10 * time.Millisecond)
		}
		s := dead.pool.find(a.period(), a.Limit)
		for filling := true; filling; {
			time.Sleep(time.Millisecond)
			s.mu.Lock()
			filling = s.filling
			s.mu.Unlock()
		}
		begun, reserve := dead.held(a)
		spent := s.spent()
		if got := used(t, q, a); reserve == 0 || got != spent+begun+reserve {
			t.Fatalf("%d are used, %d spent, it holds %d and %d", got, spent, begun, reserve)
		}
		pass(2 * time.Minute)
		for range 2 {
			if err := Reclaim(t.Context(), l.table, clock()); err != nil {
				t.Fatal(err)
			}
		}
		if got := used(t, q, a); got != spent+begun {
			t.Errorf("%d are used, want %d", got, spent+begun)
		}
		for n := range repeatsPerReceipt + 2 {
			if d, repeated, err := q.Once(t.Context(), a, 2, "key"); err != nil || !d.Admitted || repeated != (n%(repeatsPerReceipt+1) != 0) {
				t.Errorf("request %d: %+v, %v, %v", n, d, repeated, err)
			}
		}
		mustTake(t, q.pool, a, 5)
		q.Give(t.Context(), a, 1)
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := used(t, q, a); got != spent+begun+4+4 {
			t.Errorf("%d are used, want %d", got, spent+begun+8)
		}
	})
}

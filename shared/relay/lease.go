package relay

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// leaseTime is how long a row holds: so long is a relay asked that died, unless another one
	// has the tunnel too.
	leaseTime = 2 * time.Minute
	// renewEvery is how often a row is written. What that costs is per tunnel and relay; two of
	// them may fail in a row.
	renewEvery = 40 * time.Second
	// tick is how often Run looks what there is to write, a failed write included.
	tick = 2 * time.Second
	// patience is how long a request waits for an agent that was connected a moment ago: it dials again
	// within a second, and waits longer only when it is refused.
	patience = 5 * time.Second
	// writeTimeout bounds a write of a row.
	writeTimeout = 5 * time.Second
	// writers is how many rows are written at once.
	writers = 8
)

// leases are the rows of one relay. It is safe for concurrent use.
type leases struct {
	table       *store.Table // nil for a relay that writes none
	id, address string
	now         func() time.Time
	log         *slog.Logger
	// began is when the relay did.
	began time.Time
	// has tells whether a tunnel has a connection here, leaving whether one that ends in order.
	has, leaving func(ref string) bool

	mu       sync.Mutex
	byRef    map[string]*lease
	versions int64
	// given says that the rows were given back: none is taken again.
	given bool
}

// lease is what a relay has written, or would have, of a tunnel.
type lease struct {
	// writing is held while the row is written: rows are written one after the other.
	writing sync.Mutex

	// The rest is guarded by leases.mu.
	held    bool      // the relay has the tunnel, as far as the row says
	written time.Time // when the row was last written, zero when it is not known to say so
	left    time.Time // when the last connection ended, zero while there is one
}

// refs gives the tunnels that have or had a connection here a moment ago.
func (ls *leases) refs() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Collect(maps.Keys(ls.byRef))
}

// settle has the row of a tunnel say what is so: it is called whenever a first connection may
// be there, or a last one gone, and to renew the row. A write that fails is left to Run.
func (ls *leases) settle(ctx context.Context, ref string) {
	ls.mu.Lock()
	l := ls.byRef[ref]
	if l == nil {
		if !ls.has(ref) {
			ls.mu.Unlock()
			return
		}
		l = &lease{}
		if ls.byRef == nil {
			ls.byRef = map[string]*lease{}
		}
		ls.byRef[ref] = l
	}
	ls.mu.Unlock()

	l.writing.Lock()
	defer l.writing.Unlock()
	w, due, turned := ls.next(ref, l)
	if !due {
		return
	}
	switch {
	case turned && !w.Left:
		ls.log.LogAttrs(ctx, slog.LevelInfo, "relay: a tunnel has an agent", slog.String("tunnel", ref))
	case turned:
		ls.log.LogAttrs(ctx, slog.LevelInfo, "relay: a tunnel has no agent any more", slog.String("tunnel", ref))
	}
	if ls.table != nil {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := ls.table.Commit(ctx, w.put(ref)); err != nil {
			ls.log.LogAttrs(ctx, slog.LevelWarn, "relay: who has a tunnel was not written, and will be again", slog.String("tunnel", ref), slog.Any("error", err))
			return
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.written = ls.now()
}

// next decides what the row of a tunnel is to say. due is false where it says so already, and
// turned says that it will say otherwise than before, sent or not.
func (ls *leases) next(ref string, l *lease) (w row, due, turned bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	has := ls.has(ref) && !ls.given
	switch {
	case has && l.held && !l.written.IsZero() && now.Sub(l.written) < renewEvery && !now.Before(l.written):
		return row{}, false, false
	case !has && !l.held && !l.written.IsZero():
		return row{}, false, false
	case has:
		l.left = time.Time{}
	case l.left.IsZero():
		l.left = now
	}
	turned = l.held != has
	l.held, l.written = has, time.Time{}
	ls.versions++
	w = row{ID: ls.id, Address: ls.address, Until: store.Instant(now.Add(leaseTime)), Version: ls.versions}
	if !has {
		w.Left, w.Until = true, store.Instant(l.left.Add(patience))
	}
	return w, true, turned
}

// expects reports whether an agent of a tunnel that none can be asked of is to be expected here: its
// last connection ended a moment ago, or just now, before settle was called for it. One that
// leaves is not waited for until it is gone: that may take as long as what is under way. A
// relay that writes no rows has no word of those that were connected before it began.
func (ls *leases) expects(ref string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	if ls.table == nil && now.Sub(ls.began) < patience {
		return true
	}
	l := ls.byRef[ref]
	switch {
	case l == nil:
		return false
	case l.left.IsZero():
		return !ls.leaving(ref)
	}
	return now.Sub(l.left) < patience
}

// run writes what is due until ctx ends.
func (ls *leases) run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ls.settleAll(ctx)
		}
	}
}

// settleAll settles all tunnels, and forgets those that are gone.
func (ls *leases) settleAll(ctx context.Context) {
	ls.mu.Lock()
	maps.DeleteFunc(ls.byRef, func(ref string, l *lease) bool {
		return !l.left.IsZero() && !l.written.IsZero() && ls.now().Sub(l.left) >= patience && !ls.has(ref)
	})
	ls.mu.Unlock()
	var work errgroup.Group
	work.SetLimit(writers)
	for _, ref := range ls.refs() {
		work.Go(func() error {
			ls.settle(ctx, ref)
			return nil
		})
	}
	_ = work.Wait()
}

// giveBack has all rows say that the relay has no tunnel any more, and takes none from now
// on.
func (ls *leases) giveBack(ctx context.Context) {
	ls.mu.Lock()
	ls.given = true
	ls.mu.Unlock()
	ls.settleAll(ctx)
}

// others gives the relays besides this one that hold a tunnel by their rows. recent says
// that by its row some relay held it until a moment ago.
func (ls *leases) others(ctx context.Context, ref string) (held []row, recent bool, err error) {
	if ls.table == nil {
		return nil, false, nil
	}
	rows, err := store.Collect[row](ctx, ls.table, store.Query{PK: holderPartition(ref)})
	if err != nil {
		return nil, false, err
	}
	now := ls.now()
	for _, w := range rows {
		switch {
		case !w.Until.Add(ClockDifference).After(now):
		case w.Left:
			recent = true
		case w.ID != ls.id:
			held, recent = append(held, w), true
		}
	}
	return held, recent, nil
}

package relay

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// leaseDuration is how long a row is valid. Other relays call a dead relay for this long, plus MaxClockSkew, unless
	// another relay also has the tunnel.
	leaseDuration = 2 * time.Minute
	// renewInterval is the time between two writes of a row. Each relay writes a row for each of its tunnels. A
	// failed write is repeated every checkInterval, so writes can fail for 80 seconds before the lease ends.
	renewInterval = 40 * time.Second
	// checkInterval is the interval at which Run looks for rows that are due, or whose last write has failed.
	checkInterval = 2 * time.Second
	// agentWait is how long a request waits for an agent that was connected a moment
	// ago. The agent dials again within a second, or later if it is refused.
	agentWait = 5 * time.Second
	// writeTimeout limits the write of a row.
	writeTimeout = 5 * time.Second
	// maxWriters is the maximum number of rows that writeAllDue writes at the same time.
	maxWriters = 8
)

// leases writes the rows of one relay, and reads the rows of all relays. It is safe for concurrent use.
type leases struct {
	table       *store.Table // nil for a relay that writes no rows
	id, address string
	now         func() time.Time
	log         *slog.Logger
	// startedAt is when the relay started.
	startedAt time.Time
	// connected reports whether a tunnel has a connection here. draining reports whether one of its connections is
	// shutting down.
	connected, draining func(ref string) bool

	mu          sync.Mutex
	byRef       map[string]*lease
	lastVersion int64 // the version of the last row that nextRow returned
	// released is set when releaseAll begins: from then on, no further leases are taken.
	released bool
}

// lease is the state of a tunnel's row.
type lease struct {
	// writeMu is held while the row is written, so that writes are sequential.
	writeMu sync.Mutex

	// leases.mu guards the fields below.
	holds          bool      // whether the last row of nextRow says that the relay holds the tunnel
	writtenAt      time.Time // when the row was last written, zero if it may be outdated
	disconnectedAt time.Time // when the last connection ended, zero while the tunnel is connected
}

// refs returns the tunnels that have a connection here, or had one a moment ago.
func (ls *leases) refs() []string {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Collect(maps.Keys(ls.byRef))
}

// writeIfDue writes the row of a tunnel if it is due. Call it after each new connection of a tunnel, after the tunnel's
// last connection has ended, and to renew the row. Run repeats a failed write.
func (ls *leases) writeIfDue(ctx context.Context, ref string) {
	ls.mu.Lock()
	l := ls.byRef[ref]
	if l == nil {
		if !ls.connected(ref) {
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

	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	next, due, changed := ls.nextRow(ref, l)
	if !due {
		return
	}
	switch {
	case changed && !next.Released:
		ls.log.LogAttrs(ctx, slog.LevelInfo, "relay: a tunnel has an agent", slog.String("tunnel", ref))
	case changed:
		ls.log.LogAttrs(ctx, slog.LevelInfo, "relay: a tunnel has no agent any more", slog.String("tunnel", ref))
	}
	if ls.table != nil {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := ls.table.Commit(ctx, next.put(ref)); err != nil {
			ls.log.LogAttrs(ctx, slog.LevelWarn, "relay: who has a tunnel was not written, and will be again",
				slog.String("tunnel", ref), slog.Any("error", err))
			return
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.writtenAt = ls.now()
}

// nextRow returns the row of a tunnel to write. due is false if the row is up to date. changed
// reports whether the relay has begun or ceased to hold the tunnel since the previous call.
func (ls *leases) nextRow(ref string, l *lease) (next row, due, changed bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	connected := ls.connected(ref) && !ls.released
	switch {
	case connected && l.holds && !l.writtenAt.IsZero() && now.Sub(l.writtenAt) < renewInterval && !now.Before(l.writtenAt):
		return row{}, false, false
	case !connected && !l.holds && !l.writtenAt.IsZero():
		return row{}, false, false
	case connected:
		l.disconnectedAt = time.Time{}
	case l.disconnectedAt.IsZero():
		l.disconnectedAt = now
	}
	changed = l.holds != connected
	l.holds, l.writtenAt = connected, time.Time{}
	ls.lastVersion++
	next = row{
		ID: ls.id, Address: ls.address, ExpiresAt: store.Instant(now.Add(leaseDuration)), Version: ls.lastVersion,
	}
	if !connected {
		next.Released, next.ExpiresAt = true, store.Instant(l.disconnectedAt.Add(agentWait))
	}
	return next, true, changed
}

// expectsAgent reports whether an agent is likely to connect here soon for a tunnel that has no usable connection. An
// agent is expected if the tunnel's last connection ended less than agentWait ago, even if writeIfDue was not called
// yet. While a connection of the tunnel is shutting down, no agent is expected, because that may take as long as the
// requests in flight. A relay without rows does not know which agents were connected before it started: it expects
// all agents for agentWait after its start.
func (ls *leases) expectsAgent(ref string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	if ls.table == nil && now.Sub(ls.startedAt) < agentWait {
		return true
	}
	l := ls.byRef[ref]
	switch {
	case l == nil:
		return false
	case l.disconnectedAt.IsZero():
		return !ls.draining(ref)
	}
	return now.Sub(l.disconnectedAt) < agentWait
}

// run calls writeAllDue every checkInterval, until ctx ends.
func (ls *leases) run(ctx context.Context) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ls.writeAllDue(ctx)
		}
	}
}

// writeAllDue writes all rows that are due. It removes a tunnel from byRef if the tunnel's last connection ended at
// least agentWait ago, and if the row that says so was written.
func (ls *leases) writeAllDue(ctx context.Context) {
	ls.mu.Lock()
	maps.DeleteFunc(ls.byRef, func(ref string, l *lease) bool {
		return !l.disconnectedAt.IsZero() && !l.writtenAt.IsZero() && ls.now().Sub(l.disconnectedAt) >= agentWait &&
			!ls.connected(ref)
	})
	ls.mu.Unlock()
	var work errgroup.Group
	work.SetLimit(maxWriters)
	for _, ref := range ls.refs() {
		work.Go(func() error {
			ls.writeIfDue(ctx, ref)
			return nil
		})
	}
	_ = work.Wait()
}

// releaseAll marks all rows of this relay as released (row.Released). From the call on, the relay takes no further
// leases.
func (ls *leases) releaseAll(ctx context.Context) {
	ls.mu.Lock()
	ls.released = true
	ls.mu.Unlock()
	ls.writeAllDue(ctx)
}

// otherHolders returns the rows of the other relays that hold a tunnel. recentlyHeld reports whether there are such
// rows, or a row that any relay has released and that has not expired yet.
func (ls *leases) otherHolders(ctx context.Context, ref string) (holders []row, recentlyHeld bool, err error) {
	if ls.table == nil {
		return nil, false, nil
	}
	rows, err := store.Collect[row](ctx, ls.table, store.Query{PK: holderPartition(ref)})
	if err != nil {
		return nil, false, err
	}
	now := ls.now()
	for _, r := range rows {
		switch {
		case !r.ExpiresAt.Add(MaxClockSkew).After(now):
		case r.Released:
			recentlyHeld = true
		case r.ID != ls.id:
			holders, recentlyHeld = append(holders, r), true
		}
	}
	return holders, recentlyHeld, nil
}

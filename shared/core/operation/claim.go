package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Claim is an operation whose first lease belongs to the process that begins the operation. Workers do
// not run the operation before that process releases it or the lease expires. A Claim has two uses.
//
// To respond to a request with the result: put Begin into the request's commit, then call Run.
//
// To undo work that may stop halfway: the definition describes how to undo the work. Put Begin
// into the first commit of the work, and Succeed, which ends the operation, into its last commit.
// The work can have any number of commits in between. If the process dies or the lease expires before
// the last commit, a worker runs the operation. Once the worker has begun, the last commit cannot succeed.
type Claim struct {
	engine *Engine
	record Record
	err    error
}

// Claim prepares an operation with a first lease of leaseDuration for this process.
// 0 means the timeout of the operation's first step and a margin for the commit.
func (e *Engine) Claim(s Start, leaseDuration time.Duration) *Claim {
	now := e.now()
	c := &Claim{engine: e}
	if c.record, c.err = begin(s, now); c.err != nil {
		return c
	}
	d, known := e.definitions[s.Kind]
	if !known {
		c.err = fmt.Errorf("claim an operation: kind %q is not defined", s.Kind)
		return c
	}
	if leaseDuration == 0 {
		leaseDuration = d.States[d.First].timeout() + leaseMargin
	}
	c.record.State = d.First
	c.record.lease(e.ids.New("work", 16), now, now.Add(leaseDuration))
	return c
}

// Begin returns the write that creates the operation's record
// with the lease. Otherwise it works as the function Create does.
func (c *Claim) Begin() store.Write {
	if c.err != nil {
		return failingWrite(c.record.ID, c.err)
	}
	return create(c.record)
}

// Succeed returns the write that ends the operation before its first step, with status success. If the
// lease has expired and a worker has begun the operation, the commit returns ErrLost and has no effect.
func (c *Claim) Succeed() store.Write {
	if c.err != nil {
		return failingWrite(c.record.ID, c.err)
	}
	now := c.engine.now()
	next := c.record.changed(now)
	next.finish(Success, now)
	return next.put(c.record.Version)
}

// Run advances the operation as Engine.Run does, but does not read the
// record first. Call it only after the commit with Begin has succeeded.
func (c *Claim) Run(ctx context.Context) (Record, error) {
	if c.err != nil {
		return Record{}, c.err
	}
	return c.engine.work(ctx, c.record, c.record.Lease.Owner, time.Time{})
}

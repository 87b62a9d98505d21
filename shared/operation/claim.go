package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// Claim is an operation that its beginner holds from the start, so that no
// worker takes it before the beginner is done, has died or its hold is over.
// There are two uses for one.
//
// To answer a request with the result: Begin in the request's commit, then Run.
//
// To undo work that may stop halfway: the definition is the undoing. Begin in
// the first commit arms it, Succeed in the last one disarms it; in between the
// work is done in as many commits as it takes. If the beginner dies, or is too
// late, the operation runs, and the last commit can no longer happen.
type Claim struct {
	engine *Engine
	record Record
	err    error
}

// Claim prepares an operation held for hold, 0 for as long as its first step
// may take.
func (e *Engine) Claim(s Start, hold time.Duration) *Claim {
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
	if hold == 0 {
		hold = d.States[d.First].timeout() + leaseMargin
	}
	c.record.State = d.First
	c.record.lease(e.ids.New("work", 16), now, now.Add(hold))
	return c
}

// Begin is the write that creates the operation's record, like the function
// Begin.
func (c *Claim) Begin() store.Write {
	if c.err != nil {
		return refuse(c.record.ID, c.err)
	}
	return create(c.record)
}

// Succeed is the write that ends the operation before its first step, with
// status success. The commit it is in answers ErrLost, and has no effect, when
// the hold was over and a worker has begun.
func (c *Claim) Succeed() store.Write {
	if c.err != nil {
		return refuse(c.record.ID, c.err)
	}
	now := c.engine.now()
	next := c.record.changed(now)
	next.finish(Success, now)
	return next.put(c.record.Version)
}

// Run advances the operation like Engine.Run, without a look at the table
// first: the commit with Begin has succeeded.
func (c *Claim) Run(ctx context.Context) (Record, error) {
	if c.err != nil {
		return Record{}, c.err
	}
	return c.engine.work(ctx, c.record, c.record.Lease.Owner, time.Time{})
}

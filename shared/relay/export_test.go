package relay

import (
	"context"
	"net/http"
	"time"
)

// What tests of this package see of its inside.
const (
	FieldPass   = fieldPass
	FieldAnswer = fieldAnswer
	LeaseTime   = leaseTime
	RenewEvery  = renewEvery
	Patience    = patience
	PassLife    = passLife
	MaxSent     = maxSent
)

// Row is a row of the table.
type Row = row

// HolderPartition has the rows of a tunnel.
func HolderPartition(ref string) string { return holderPartition(ref) }

// Claims are what a pass is good for.
type Claims = claims

// Pass makes the pass of a request at another time than now.
func (cl *Client) Pass(r *http.Request, c Claims, after time.Duration) (string, error) {
	p := &passes{hasher: cl.asker.passes.hasher, now: func() time.Time { return cl.asker.passes.now().Add(after) }}
	return p.make(r.Context(), c, r.Method, r.URL.RequestURI())
}

// Leases are the rows of one relay.
type Leases struct{ *leases }

// NewLeases makes leases whose connections are those that has tells of.
func NewLeases(o Options, id string, has func(ref string) bool) Leases {
	return Leases{&leases{table: o.Table, id: id, address: o.Address, now: o.Now, log: o.Log, has: has}}
}

// Settle has the row of a tunnel say what is so.
func (l Leases) Settle(ctx context.Context, ref string) { l.settle(ctx, ref) }

// SettleAll settles all tunnels.
func (l Leases) SettleAll(ctx context.Context) { l.settleAll(ctx) }

// Others gives the relays that hold a tunnel.
func (l Leases) Others(ctx context.Context, ref string) (held []Row, recent bool, err error) {
	return l.others(ctx, ref)
}

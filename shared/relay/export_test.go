package relay

import (
	"context"
	"io"
	"net/http"
	"time"
)

// What tests of this package see of its inside.
const (
	FieldPass   = fieldPass
	FieldAnswer = fieldAnswer
	LeaseTime   = leaseTime
	RenewEvery  = renewEvery
	PassLife    = passLife
	MaxSent     = maxSent
	GoneTimeout = goneTimeout
	DownTime    = downTime
)

// Patience is a variable, since a planted defect changes what it is.
var Patience = patience

// Usual is how long connections to relays may take, and be silent.
func Usual() (dial, ping, pong time.Duration) {
	u := usual()
	return u.dial, u.ping, u.pong
}

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

// Told is of how many tunnels it is remembered what their agents were told.
func (rl *Relay) Told() int {
	rl.told.mu.Lock()
	defer rl.told.mu.Unlock()
	return len(rl.told.byRef)
}

// UnderWay counts requests.
type UnderWay struct{ underWay }

// Begin counts one until the function that it gives is called.
func (u *UnderWay) Begin() (end func()) { return u.begin() }

// Wait returns when there are none, or ctx has ended.
func (u *UnderWay) Wait(ctx context.Context) { u.wait(ctx) }

// ErrRefused says that a relay did not take a pass.
var ErrRefused = errRefused

// Fail answers a failure.
func Fail(w http.ResponseWriter, err error) { fail(w, err) }

// Failed gives the failure that an answer tells of.
func Failed(response *http.Response) error { return failed(response) }

// Body is a request's body over several attempts.
type Body struct{ *body }

// ErrOver is what an attempt reads that was overtaken.
var ErrOver = errOver

// BodyOf is the body of a request.
func BodyOf(r *http.Request) Body { return Body{bodyOf(r)} }

// Next gives the body of the next attempt.
func (b Body) Next() io.ReadCloser { return b.next() }

// Touched reports whether some of the body is gone.
func (b Body) Touched() bool { return b.touched() }

// Keep leaves the body to the attempt that was answered.
func (b Body) Keep() { b.keep() }

// End closes the body.
func (b Body) End() { b.end() }

// Tries are the attempts to send one request.
type Tries struct{ *tries }

// TriesOf are those of a request.
func TriesOf(r *http.Request) Tries { return Tries{triesOf(r)} }

// Begin gives the body of an attempt.
func (t Tries) Begin() io.ReadCloser { return t.body.next() }

// Again reports whether there may be another attempt.
func (t Tries) Again(err error) bool { return t.again(err) }

// Done gives the outcome.
func (t Tries) Done(response *http.Response, err error) (*http.Response, error) {
	return t.done(response, err)
}

// Wait waits before the next attempt.
func (t Tries) Wait(ctx context.Context, pause time.Duration, news <-chan struct{}, err error) error {
	return t.wait(ctx, pause, news, err)
}

// Leases are the rows of one relay.
type Leases struct{ *leases }

// NewLeases makes leases whose connections are those that has tells of, none of which leaves.
func NewLeases(o Options, id string, has func(ref string) bool) Leases {
	return Leases{&leases{
		table: o.Table, id: id, address: o.Address, now: o.Now, log: o.Log, began: o.Now(),
		has: has, leaving: func(string) bool { return false },
	}}
}

// Expects reports whether an agent of a tunnel is to be expected.
func (l Leases) Expects(ref string) bool { return l.expects(ref) }

// Settle has the row of a tunnel say what is so.
func (l Leases) Settle(ctx context.Context, ref string) { l.settle(ctx, ref) }

// Refs are the tunnels that are remembered.
func (l Leases) Refs() []string { return l.refs() }

// SettleAll settles all tunnels.
func (l Leases) SettleAll(ctx context.Context) { l.settleAll(ctx) }

// Others gives the relays that hold a tunnel.
func (l Leases) Others(ctx context.Context, ref string) (held []Row, recent bool, err error) {
	return l.others(ctx, ref)
}

// Down are the relays that could not be asked.
type Down struct{ down }

// Note notes whether a relay could be asked.
func (d *Down) Note(address string, asked bool, now time.Time) (news bool) {
	return d.note(address, asked, now)
}

// Last sorts rows of relays that are down behind the others.
func (d *Down) Last(rows []Row, now time.Time) { d.last(rows, now) }

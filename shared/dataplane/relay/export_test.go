package relay

import (
	"context"
	"io"
	"net/http"
	"time"
)

// These are unexported names of this package that its tests use.
const (
	FieldPass            = fieldPass
	FieldResult          = fieldResult
	LeaseDuration        = leaseDuration
	RenewInterval        = renewInterval
	PassLifetime         = passLifetime
	MaxAttempts          = maxAttempts
	DeletedTunnelTimeout = deletedTunnelTimeout
	UnreachableTime      = unreachableTime
)

// AgentWait is a variable, because a planted defect changes its value.
var AgentWait = agentWait

// DefaultTimeouts returns the timeouts of connections to relays.
func DefaultTimeouts() (dial, ping, pong time.Duration) {
	u := defaultTimeouts()
	return u.dial, u.ping, u.pong
}

// Row is a row of the table.
type Row = row

// HolderPartition returns the partition with the rows of a tunnel.
func HolderPartition(ref string) string { return holderPartition(ref) }

// Claims are the contents of a pass.
type Claims = claims

// Pass returns the pass of a request, as the client would issue it after this duration.
func (cl *Client) Pass(r *http.Request, c Claims, after time.Duration) (string, error) {
	p := &passes{hasher: cl.relayClient.passes.hasher, now: func() time.Time {
		return cl.relayClient.passes.now().Add(after)
	}}
	return p.issue(r.Context(), c, r.Method, r.URL.RequestURI())
}

// ConfiguredTunnels returns the number of tunnels whose agents' services are cached.
func (rl *Relay) ConfiguredTunnels() int {
	rl.configured.mu.Lock()
	defer rl.configured.mu.Unlock()
	return len(rl.configured.byRef)
}

// InFlight counts requests.
type InFlight struct{ inFlight }

// Begin adds a request to the count. end subtracts it.
func (f *InFlight) Begin() (end func()) { return f.begin() }

// Wait waits until there are no requests, or ctx has ended.
func (f *InFlight) Wait(ctx context.Context) { f.wait(ctx) }

// ErrPassRefused is the error of a refused pass.
var ErrPassRefused = errPassRefused

// WriteFailure writes a failure.
func WriteFailure(w http.ResponseWriter, err error) { writeFailure(w, err) }

// ReadFailure returns the failure that a response reports.
func ReadFailure(response *http.Response) error { return readFailure(response) }

// Body is a request's body across several attempts.
type Body struct{ *body }

// ErrAttemptOver is the error of reading in an attempt that was replaced.
var ErrAttemptOver = errAttemptOver

// NewBody returns the body of a request.
func NewBody(r *http.Request) Body { return Body{newBody(r)} }

// Next returns the body for the next attempt.
func (b Body) Next() io.ReadCloser { return b.next() }

// WasRead reports whether an attempt has started to read the body.
func (b Body) WasRead() bool { return b.wasRead() }

// HandOver leaves the body to the attempt that has a response.
func (b Body) HandOver() { b.handOver() }

// Release closes the body.
func (b Body) Release() { b.release() }

// Attempts are the attempts to send one request.
type Attempts struct{ *attempts }

// NewAttempts returns the attempts of a request.
func NewAttempts(r *http.Request) Attempts { return Attempts{newAttempts(r)} }

// Begin returns the body of an attempt.
func (a Attempts) Begin() io.ReadCloser { return a.body.next() }

// ShouldRetry reports whether another attempt is possible.
func (a Attempts) ShouldRetry(err error) bool { return a.shouldRetry(err) }

// Finish returns the result of the last attempt.
func (a Attempts) Finish(response *http.Response, err error) (*http.Response, error) {
	return a.finish(response, err)
}

// WaitRetry waits before the next attempt.
func (a Attempts) WaitRetry(ctx context.Context, delay time.Duration, changed <-chan struct{}, err error) error {
	return a.waitRetry(ctx, delay, changed, err)
}

// Leases are the rows of one relay.
type Leases struct{ *leases }

// NewLeases returns the leases of a relay. connected reports whether a tunnel has a connection.
// No connection is shutting down.
func NewLeases(o Options, id string, connected func(ref string) bool) Leases {
	return Leases{&leases{
		table: o.Table, id: id, address: o.Address, now: o.Now, log: o.Log, startedAt: o.Now(),
		connected: connected, draining: func(string) bool { return false },
	}}
}

// ExpectsAgent reports whether an agent of a tunnel is expected.
func (l Leases) ExpectsAgent(ref string) bool { return l.expectsAgent(ref) }

// WriteIfDue writes the row of a tunnel if it is due.
func (l Leases) WriteIfDue(ctx context.Context, ref string) { l.writeIfDue(ctx, ref) }

// Refs returns the tunnels that have a connection, or had one a moment ago.
func (l Leases) Refs() []string { return l.refs() }

// WriteAllDue writes all rows that are due.
func (l Leases) WriteAllDue(ctx context.Context) { l.writeAllDue(ctx) }

// OtherHolders returns the rows of the other relays that hold a tunnel. recentlyHeld reports whether there are such
// rows, or a valid row of a relay that has released the tunnel.
func (l Leases) OtherHolders(ctx context.Context, ref string) (holders []Row, recentlyHeld bool, err error) {
	return l.otherHolders(ctx, ref)
}

// UnreachableRelays has the relays that count as unreachable.
type UnreachableRelays struct{ unreachableRelays }

// Record records whether a relay was reached. It reports whether the relay newly counts as unreachable.
func (r *UnreachableRelays) Record(address string, reached bool, now time.Time) (newlyUnreachable bool) {
	return r.record(address, reached, now)
}

// SortLast moves the rows of unreachable relays to the end.
func (r *UnreachableRelays) SortLast(rows []Row, now time.Time) { r.sortLast(rows, now) }

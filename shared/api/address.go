package api

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/subscriber"
)

// Addresses bounds how often clients without a key may ask, by their addresses: so many requests in each second of the
// process's clock. It counts in this process alone and in memory: an installation in AWS has several processes where many
// ask at once, and its web ACL counts over all of them (-c waf=true). A public operation that wrote a record for each stranger would let
// strangers write to the table.
//
// Its memory is bounded: of more addresses than it can count within a second, the later ones are refused, so that
// none ever has more than its number. It is safe for concurrent use.
type Addresses struct {
	requests int
	now      func() time.Time

	mu     sync.Mutex
	second int64
	asked  map[netip.Addr]int
}

// maxAddresses is how many addresses are counted in a second, some 60 bytes each.
const maxAddresses = 16_384

// NewAddresses lets each address ask so many requests in a second of now.
func NewAddresses(requests int, now func() time.Time) *Addresses {
	return &Addresses{requests: requests, now: now, asked: map[netip.Addr]int{}}
}

// Take counts a request of the address that the platform saw it come from; nothing that a client writes counts. It answers 0
// where the request may go on, and else how long it is until the next second.
func (a *Addresses) Take(r *http.Request) (retryAfter time.Duration) {
	from := clientOf(sourceIP(r))
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if second := now.Unix(); second != a.second {
		a.second = second
		clear(a.asked)
	}
	asked, known := a.asked[from]
	if asked >= a.requests || !known && len(a.asked) >= maxAddresses {
		return max(now.Truncate(time.Second).Add(time.Second).Sub(now), time.Millisecond)
	}
	a.asked[from] = asked + 1
	return 0
}

// clientOf is what counts as one client. What is no address is one, all together.
func clientOf(source string) netip.Addr {
	address, err := netip.ParseAddr(source)
	if err != nil {
		return netip.Addr{}
	}
	return subscriber.Of(address)
}

package api

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/clientaddr"
)

// AddressLimiter limits the requests per second of clients without a key, by their addresses. Seconds are
// those of the process's clock. It counts in memory, and only in this process. An installation in AWS
// runs several processes under load; its web ACL, which a deployment with -c waf=true has, counts over all of
// them. An AddressLimiter does not use the table: if a public operation wrote a record for each unknown client,
// anyone could fill the table.
//
// Its memory is bounded: if there are more addresses in a second than it can count, it refuses
// the further addresses, so that no address exceeds its limit. It is safe for concurrent use.
type AddressLimiter struct {
	requests int
	now      func() time.Time

	mu     sync.Mutex
	second int64
	counts map[netip.Addr]int
}

// maxAddresses is the maximum number of addresses that are counted in a second. Each address takes about 60 bytes.
const maxAddresses = 16_384

// NewAddressLimiter returns an AddressLimiter that allows each
// address a number of requests per second. now is its clock.
func NewAddressLimiter(requests int, now func() time.Time) *AddressLimiter {
	return &AddressLimiter{requests: requests, now: now, counts: map[netip.Addr]int{}}
}

// Reserve counts a request by the address from which the platform received it; headers of the client are ignored. It
// returns 0 if the request may continue, and otherwise the time until the next second.
func (a *AddressLimiter) Reserve(r *http.Request) (retryAfter time.Duration) {
	from := canonicalAddress(sourceIP(r))
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if second := now.Unix(); second != a.second {
		a.second = second
		clear(a.counts)
	}
	count, exists := a.counts[from]
	if count >= a.requests || !exists && len(a.counts) >= maxAddresses {
		return max(now.Truncate(time.Second).Add(time.Second).Sub(now), time.Millisecond)
	}
	a.counts[from] = count + 1
	return 0
}

// canonicalAddress returns the address that identifies a client for counting (package
// clientaddr). All texts that are not addresses count as the same client.
func canonicalAddress(source string) netip.Addr {
	address, err := netip.ParseAddr(source)
	if err != nil {
		return netip.Addr{}
	}
	return clientaddr.Canonical(address)
}

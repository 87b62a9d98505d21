// Package ids creates the identifiers of contract 1.4: a prefix, an underscore
// and base62 digits. It also creates UUIDs if the contract requires them.
//
// Callers pass the sources of randomness and time, so that tests can create the same identifiers in each run.
//
// This is the only file.
package ids

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// timeDigits is the number of base62 digits for milliseconds since 1970. They suffice until the year 8888.
const timeDigits = 8

// Source creates identifiers. It is safe for concurrent use.
type Source struct {
	random io.Reader
	now    func() time.Time

	mu     sync.Mutex
	lastMs int64 // the last millisecond that an ordered identifier has used
	// buffer receives random bytes, so that no buffer is allocated for each identifier.
	buffer [64]byte
}

// NewSource returns a Source that reads randomness from random (crypto/rand.Reader outside tests) and the time from now.
func NewSource(random io.Reader, now func() time.Time) *Source {
	return &Source{random: random, now: now}
}

// New returns prefix_ and n random base62 digits.
func (s *Source) New(prefix string, n int) string {
	return prefix + "_" + s.Digits(n)
}

// Ordered returns prefix_ and n base62 digits that sort by the time of their creation. The first 8 digits are
// milliseconds, which increase with each identifier of this source. The other digits are random. n must be at least
// 20, which leaves 71 random bits.
func (s *Source) Ordered(prefix string, n int) string {
	s.mu.Lock()
	ms := max(s.now().UnixMilli(), s.lastMs+1)
	s.lastMs = ms
	s.mu.Unlock()
	var b [timeDigits]byte
	for i := timeDigits - 1; i >= 0; i-- {
		b[i] = base62[ms%62]
		ms /= 62
	}
	return prefix + "_" + string(b[:]) + s.Digits(n-timeDigits)
}

// Digits returns n random base62 digits, each equally likely.
func (s *Source) Digits(n int) string {
	var b strings.Builder
	b.Grow(n)
	buf := make([]byte, n+n/8+4)
	for b.Len() < n {
		s.read(buf)
		for _, c := range buf {
			// 248 is the largest multiple of 62 in a byte. With larger bytes, some digits would be more likely.
			if c < 248 && b.Len() < n {
				b.WriteByte(base62[c%62])
			}
		}
	}
	return b.String()
}

// UUID returns a random (version 4) UUID.
func (s *Source) UUID() string {
	return uuid.Must(uuid.NewRandomFromReader(reader{s})).String()
}

// reader reads a source's randomness. It never fails: read panics instead.
type reader struct{ source *Source }

func (r reader) Read(b []byte) (int, error) {
	r.source.read(b)
	return len(b), nil
}

// Hex returns n random lower-case hexadecimal digits. n must be even.
func (s *Source) Hex(n int) string {
	b := make([]byte, n/2)
	s.read(b)
	return hex.EncodeToString(b)
}

// read fills b with random bytes. It panics if the source of randomness
// fails: nothing can continue without it, and crypto/rand.Reader never fails.
func (s *Source) read(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.buffer[:]) // the buffer can contain a part of a secret
	for len(b) > 0 {
		n := min(len(b), len(s.buffer))
		if _, err := io.ReadFull(s.random, s.buffer[:n]); err != nil {
			panic(fmt.Sprintf("ids: no randomness: %v", err))
		}
		b = b[copy(b, s.buffer[:n]):]
	}
}

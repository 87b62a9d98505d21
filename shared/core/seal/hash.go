package seal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Hasher computes keyed hashes (HMAC-SHA-256). Without the root key, an attacker with a hash from
// the table cannot test whether it is the hash of a guessed text. It is safe for concurrent use.
type Hasher struct {
	source       KeySource
	purpose      string
	policy       RotationPolicy
	cachedRing   atomic.Pointer[Ring]
	cachedChains atomic.Pointer[chainSet]
}

// chainSet has the chains of a ring's root keys.
type chainSet struct {
	ring *Ring
	// chains are the chains in the order of the root keys. primary
	// is the chain of the current root key, which hashes new texts.
	chains  []*chain
	primary *chain
}

// chain computes the hashes of a purpose under one root key: the first link
// hashes the text, and each further link hashes the result of the previous link.
type chain struct {
	number int
	links  []*link
	// prefix is the prefix of the chain's hashes. It is "" under the first root key, and for purposes that are not chained.
	prefix string
}

// link hashes with one subkey. number is the number of the root key of this subkey. The only link of a pinned purpose
// is an exception: it always has the subkey of the first root key, and number is the number of the chain's root key. A
// link keeps HMAC states for reuse, because creating a state costs as much as hashing a short text.
type link struct {
	number int
	pool   sync.Pool // of hash.Hash
}

// numberSeparator separates a root key's number from the hash. It is not a digit of base64.
const numberSeparator = "."

// NewHasher returns the Hasher of a purpose, such as "consumer-key": a text has a different hash for each purpose.
// The Hasher calls the source when it is first used. NewHasher panics if no policy is declared for the purpose.
func NewHasher(source KeySource, purpose string) *Hasher {
	policy, ok := purposes[purpose]
	if !ok {
		panic("seal: no rotation policy is declared for hashes of the purpose " + purpose)
	}
	return &Hasher{source: source, purpose: purpose, policy: policy}
}

// Hash returns the hash of text under the current root key, as 43 characters of unpadded URL-safe base64. If the
// purpose is chained and the root key is not the first, the root key's number and a dot precede the hash. The hash of
// a text stays the same until the root key is rotated, or forever if the purpose is pinned. Hashes can be looked up
// in the table; a comparison in constant time is not necessary, because without the root key an attacker cannot
// choose texts with certain hashes.
func (h *Hasher) Hash(ctx context.Context, text string) (string, error) {
	c, err := h.chains(ctx)
	if err != nil {
		return "", fmt.Errorf("hash a text: %w", err)
	}
	return c.primary.hash(text), nil
}

// Lookups returns the hashes under which text may be stored, oldest first: one, or two
// during a rotation of the root key. A rotation moves stored data from the first hash
// to the second, and never back. So consistent reads in this order find existing data.
func (h *Hasher) Lookups(ctx context.Context, text string) ([]string, error) {
	c, err := h.chains(ctx)
	if err != nil {
		return nil, fmt.Errorf("hash a text: %w", err)
	}
	out := make([]string, 0, len(c.chains))
	for _, chain := range c.chains {
		if sum := chain.hash(text); !slices.Contains(out, sum) {
			out = append(out, sum)
		}
	}
	return out, nil
}

// Matches reports, in constant time, whether sum is the hash of text under one of the ring's root keys.
func (h *Hasher) Matches(ctx context.Context, text, sum string) (bool, error) {
	c, err := h.chains(ctx)
	if err != nil {
		return false, fmt.Errorf("hash a text: %w", err)
	}
	match := 0
	for _, chain := range c.chains {
		match |= subtle.ConstantTimeCompare([]byte(chain.hash(text)), []byte(sum))
	}
	return match == 1, nil
}

// Renew converts a stored hash to the hash of the same text under the current root key, and reports whether it has
// changed. It panics if the purpose is not chained. It returns an error if sum does not have the form of a hash.
func (h *Hasher) Renew(ctx context.Context, sum string) (renewed string, changed bool, err error) {
	if h.policy != Chained {
		panic("seal: hashes of the purpose " + h.purpose + " are not chained")
	}
	c, err := h.chains(ctx)
	if err != nil {
		return "", false, fmt.Errorf("renew a hash: %w", err)
	}
	number, bare := 1, sum
	if before, after, ok := strings.Cut(sum, numberSeparator); ok {
		if number, err = strconv.Atoi(before); err != nil || number < 2 {
			return "", false, errInvalidHash
		}
		bare = after
	}
	if len(bare) != base64.RawURLEncoding.EncodedLen(sha256.Size) {
		return "", false, errInvalidHash
	}
	if number >= c.primary.number {
		return sum, false, nil
	}
	return c.primary.from(number, bare), true, nil
}

var errInvalidHash = errors.New("seal: the text is no hash of a root key")

func (h *Hasher) chains(ctx context.Context) (*chainSet, error) {
	ring, err := ringOf(ctx, h.source, &h.cachedRing)
	if err != nil {
		return nil, err
	}
	if c := h.cachedChains.Load(); c != nil && c.ring == ring {
		return c, nil
	}
	c := &chainSet{ring: ring}
	for _, root := range ring.roots {
		chain, err := h.chain(root)
		if err != nil {
			return nil, err
		}
		c.chains = append(c.chains, chain)
		if root == ring.primary {
			c.primary = chain
		}
	}
	h.cachedChains.Store(c)
	return c, nil
}

// chain returns the chain of a root key.
func (h *Hasher) chain(root *Root) (*chain, error) {
	key, err := subkey(root.Key, hashPrefix+h.purpose)
	if err != nil {
		return nil, err
	}
	out := &chain{number: root.Number}
	earlier := root.Lineage[h.purpose]
	numbers := slices.Sorted(maps.Keys(earlier))
	switch {
	case h.policy == Chained:
		for _, number := range numbers {
			out.links = append(out.links, newLink(number, earlier[number]))
		}
		if root.Number > 1 {
			out.prefix = strconv.Itoa(root.Number) + numberSeparator
		}
	case h.policy == Pinned && len(numbers) > 0:
		key = earlier[numbers[0]]
	}
	out.links = append(out.links, newLink(root.Number, key))
	return out, nil
}

func newLink(number int, key []byte) *link {
	l := &link{number: number}
	l.pool.New = func() any { return hmac.New(sha256.New, key) }
	return l
}

func (c *chain) hash(text string) string { return c.from(0, text) }

// from returns the hash of text, computed with the links of the root keys whose number is greater than number.
func (c *chain) from(number int, text string) string {
	for _, l := range c.links {
		if l.number > number {
			text = l.hash(text)
		}
	}
	return c.prefix + text
}

func (l *link) hash(text string) string {
	state, _ := l.pool.Get().(hash.Hash) // New returns only this type
	defer l.pool.Put(state)
	state.Reset()
	state.Write([]byte(text))
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.EncodeToString(state.Sum(sum[:0]))
}

// checkText is the text that RootKeyHash and Root.Fingerprint hash. It must never change.
const checkText = "the key of this data"

// RootKeyHash returns a hash that identifies the source's root key and reveals nothing about it.
func RootKeyHash(ctx context.Context, source KeySource) (string, error) {
	return NewHasher(source, checkPurpose).Hash(ctx, checkText)
}

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

// Hasher makes keyed hashes (HMAC-SHA-256): who reads the table cannot try
// texts against them without the root key. It is safe for concurrent use.
type Hasher struct {
	source     KeySource
	purpose    string
	fate       Fate
	remembered atomic.Pointer[Ring]
	cached     atomic.Pointer[cachedHash]
}

// cachedHash keeps the chains of a ring's root keys.
type cachedHash struct {
	ring *Ring
	// chains are those of the ring's root keys in their order, writing that of the one that writes.
	chains  []*chain
	writing *chain
}

// chain makes the hashes of a purpose under one root key: each link hashes what the one before gives.
type chain struct {
	number int
	links  []*link
	// spelled begins its hashes: "" under the first root key, and for what is not chained.
	spelled string
}

// link keeps HMAC states of one key for use again: making one costs as much as hashing a short text.
type link struct {
	number int
	pool   sync.Pool // of hash.Hash
}

// numbered parts a root key's number from the hash. It is no digit of base64.
const numbered = "."

// NewHasher makes the Hasher of a purpose, such as "consumer-key": a text has
// another hash under each. It asks the source when it is first used, and panics for
// a purpose of which nothing says what a rotation makes of it.
func NewHasher(source KeySource, purpose string) *Hasher {
	fate, ok := purposes[purpose]
	if !ok {
		panic("seal: no fate is declared for hashes of the purpose " + purpose)
	}
	return &Hasher{source: source, purpose: purpose, fate: fate}
}

// Hash returns the hash of text under the root key that writes, as 43 characters of unpadded URL-safe base64, behind
// the root key's number and a dot where it is chained and that is not the first. It is the same for the same text as long as the
// root key is. Equal hashes may be looked up in the
// table; no comparison in constant time is needed, since without the root key
// nobody can choose a text by its hash.
func (h *Hasher) Hash(ctx context.Context, text string) (string, error) {
	c, err := h.chains(ctx)
	if err != nil {
		return "", fmt.Errorf("hash a text: %w", err)
	}
	return c.writing.hash(text), nil
}

// Lookups returns the hashes that text may be kept under, the oldest first: one, and two while the root key
// is rotated. What is kept moves from the first to the second and never back, so that who looks in this order, with
// consistent reads, finds what is there.
func (h *Hasher) Lookups(ctx context.Context, text string) ([]string, error) {
	c, err := h.chains(ctx)
	if err != nil {
		return nil, fmt.Errorf("hash a text: %w", err)
	}
	out := make([]string, 0, len(c.chains))
	for _, its := range c.chains {
		if sum := its.hash(text); !slices.Contains(out, sum) {
			out = append(out, sum)
		}
	}
	return out, nil
}

// Matches reports, in constant time, whether a hash is that of text under a root key that there is.
func (h *Hasher) Matches(ctx context.Context, text, sum string) (bool, error) {
	c, err := h.chains(ctx)
	if err != nil {
		return false, fmt.Errorf("hash a text: %w", err)
	}
	match := 0
	for _, its := range c.chains {
		match |= subtle.ConstantTimeCompare([]byte(its.hash(text)), []byte(sum))
	}
	return match == 1, nil
}

// Renew returns a kept hash as it is under the root key that writes, and whether that is another one. It is for
// chained purposes, and panics for others. A text that is no hash of the purpose is an error.
func (h *Hasher) Renew(ctx context.Context, sum string) (renewed string, other bool, err error) {
	if h.fate != Chained {
		panic("seal: hashes of the purpose " + h.purpose + " are not chained")
	}
	c, err := h.chains(ctx)
	if err != nil {
		return "", false, fmt.Errorf("renew a hash: %w", err)
	}
	number, bare := 1, sum
	if before, after, ok := strings.Cut(sum, numbered); ok {
		if number, err = strconv.Atoi(before); err != nil || number < 2 {
			return "", false, errNoHash
		}
		bare = after
	}
	if len(bare) != base64.RawURLEncoding.EncodedLen(sha256.Size) {
		return "", false, errNoHash
	}
	if number >= c.writing.number {
		return sum, false, nil
	}
	return c.writing.from(number, bare), true, nil
}

var errNoHash = errors.New("seal: the text is no hash of a root key")

func (h *Hasher) chains(ctx context.Context) (*cachedHash, error) {
	ring, err := ringOf(ctx, h.source, &h.remembered)
	if err != nil {
		return nil, err
	}
	if c := h.cached.Load(); c != nil && c.ring == ring {
		return c, nil
	}
	c := &cachedHash{ring: ring}
	for _, root := range ring.roots {
		its, err := h.chain(root)
		if err != nil {
			return nil, err
		}
		c.chains = append(c.chains, its)
		if root == ring.writing {
			c.writing = its
		}
	}
	h.cached.Store(c)
	return c, nil
}

// chain makes the chain of a root key.
func (h *Hasher) chain(root *Root) (*chain, error) {
	own, err := subkey(root.Key, hashing+h.purpose)
	if err != nil {
		return nil, err
	}
	out := &chain{number: root.Number}
	earlier := root.Lineage[h.purpose]
	numbers := slices.Sorted(maps.Keys(earlier))
	switch {
	case h.fate == Chained:
		for _, number := range numbers {
			out.links = append(out.links, newLink(number, earlier[number]))
		}
		if root.Number > 1 {
			out.spelled = strconv.Itoa(root.Number) + numbered
		}
	case h.fate == Carried && len(numbers) > 0:
		own = earlier[numbers[0]]
	}
	out.links = append(out.links, newLink(root.Number, own))
	return out, nil
}

func newLink(number int, key []byte) *link {
	l := &link{number: number}
	l.pool.New = func() any { return hmac.New(sha256.New, key) }
	return l
}

func (c *chain) hash(text string) string { return c.from(0, text) }

// from goes on with the links behind that of a root key.
func (c *chain) from(number int, text string) string {
	for _, l := range c.links {
		if l.number > number {
			text = l.hash(text)
		}
	}
	return c.spelled + text
}

func (l *link) hash(text string) string {
	state, _ := l.pool.Get().(hash.Hash) // New makes nothing else
	defer l.pool.Put(state)
	state.Reset()
	state.Write([]byte(text))
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.EncodeToString(state.Sum(sum[:0]))
}

// checked is what Check and Root.Fingerprint hash.
const checked = "the key of this data"

// Check is a text that tells the source's root key from others and gives nothing of it away.
func Check(ctx context.Context, source KeySource) (string, error) {
	return NewHasher(source, checkPurpose).Hash(ctx, checked)
}

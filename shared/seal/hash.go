package seal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"sync"
	"sync/atomic"
)

// Hasher makes keyed hashes (HMAC-SHA-256): who reads the table cannot try
// texts against them without the root key. It is safe for concurrent use.
type Hasher struct {
	source  KeySource
	purpose string
	cached  atomic.Pointer[cachedHash]
}

// cachedHash keeps HMAC states of one key for use again: making one costs as
// much as hashing a short text.
type cachedHash struct {
	root *byte
	pool sync.Pool // of hash.Hash
}

// NewHasher makes the Hasher of a purpose, such as "consumer-key": a text has
// another hash under each. It asks the source when it is first used.
func NewHasher(source KeySource, purpose string) *Hasher {
	return &Hasher{source: source, purpose: purpose}
}

// Hash returns the hash of text as 43 characters of unpadded URL-safe base64,
// always the same for the same text. Equal hashes may be looked up in the
// table; no comparison in constant time is needed, since without the root key
// nobody can choose a text by its hash.
func (h *Hasher) Hash(ctx context.Context, text string) (string, error) {
	c, err := h.states(ctx)
	if err != nil {
		return "", fmt.Errorf("hash a text: %w", err)
	}
	state, _ := c.pool.Get().(hash.Hash) // New makes nothing else
	defer c.pool.Put(state)
	state.Reset()
	state.Write([]byte(text))
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.EncodeToString(state.Sum(sum[:0])), nil
}

func (h *Hasher) states(ctx context.Context) (*cachedHash, error) {
	root, err := rootOf(ctx, h.source)
	if err != nil {
		return nil, err
	}
	if c := h.cached.Load(); c != nil && c.root == &root[0] {
		return c, nil
	}
	key, err := subkey(root, "hash/"+h.purpose)
	if err != nil {
		return nil, err
	}
	c := &cachedHash{root: &root[0]}
	c.pool.New = func() any { return hmac.New(sha256.New, key) }
	h.cached.Store(c)
	return c, nil
}

package jwt

import (
	"encoding/binary"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// TestCacheIsBounded checks the number and the bytes of verified tokens, and the number of issuers.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tokens, dataBytes, wantMax int }{
		{64, 1, 64},
		{maxTokens, 1 << 20, maxTokenBytes >> 20},
	} {
		c := newCache(tt.tokens)
		for i := range 1000 {
			var id digest
			binary.BigEndian.PutUint16(id[:], uint16(i)*257)
			binary.BigEndian.PutUint16(id[2:], uint16(i))
			for range 2 { // the second call replaces the entry
				c.put(id, &verified{user: &pipeline.User{Data: make([]byte, tt.dataBytes)}})
			}
		}
		entries, bytes := 0, 0
		for i := range c.shards {
			entries += c.shards[i].lru.Len()
			bytes += c.shards[i].bytes
		}
		if entries > tt.wantMax || entries < tt.wantMax/3 || bytes > maxTokenBytes {
			t.Errorf("cache for %d tokens of %d bytes: %d entries with %d bytes, want at most %d and %d", tt.tokens,
				tt.dataBytes, entries, bytes, tt.wantMax, maxTokenBytes)
		}
	}
	c := NewCache()
	for i := range 2 * maxSources {
		c.source(Config{Account: string(binary.BigEndian.AppendUint32(nil, uint32(i)))})
	}
	if n := c.sources.Len(); n != maxSources {
		t.Errorf("issuers in the cache = %d, want %d", n, maxSources)
	}
}

// TestAccountsShareNoKeys checks which verifiers share fetched keys.
func TestAccountsShareNoKeys(t *testing.T) {
	t.Parallel()
	c := NewCache()
	first := c.source(Config{Account: "a", Issuer: "https://x"})
	for name, tt := range map[string]struct {
		config Config
		same   bool
	}{
		"same":            {Config{Account: "a", Issuer: "https://x", Audiences: []string{"b"}}, true},
		"another account": {Config{Account: "b", Issuer: "https://x"}, false},
		"another issuer":  {Config{Account: "a", Issuer: "https://y"}, false},
		"another address": {Config{Account: "a", Issuer: "https://x", KeysURL: "https://x"}, false},
	} {
		if got := c.source(tt.config) == first; got != tt.same {
			t.Errorf("source(%s) is the same: %t, want %t", name, got, tt.same)
		}
	}
}

package graphql

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestCachedResultMatchesAnalyze(t *testing.T) {
	c := newCache(100, 1<<20)
	texts := []string{"{a}", "{a{b}}", "{a", "query A{a} query B{b}", "{__schema{types{name}}}", "{a{edges{b}}}"}
	for range 3 {
		for _, text := range texts {
			for _, ignored := range [][]string{nil, {"a"}, {"edges"}, {"a", "edges"}} {
				got, refused := c.Analyze(text, ignored)
				want, wantRefused := Analyze(text, ignored)
				if fmt.Sprint(got, refused) != fmt.Sprint(want, wantRefused) {
					t.Errorf("Analyze(%s, %q) = %v, %v, want %v, %v", text, ignored, got, refused, want, wantRefused)
				}
			}
		}
	}
	if want := len(texts) * 4; c.lru.Len() != want {
		t.Errorf("cached entries = %d, want %d", c.lru.Len(), want)
	}
}

func TestCacheReturnsStoredDocument(t *testing.T) {
	c := NewCache()
	first, _ := c.Analyze("{a}", nil)
	if second, _ := c.Analyze("{a}", nil); first != second {
		t.Error("second Analyze({a}) = another document, want the cached one")
	}
	var none *Cache
	if d, refused := none.Analyze("{a}", nil); d == nil || refused != nil {
		t.Errorf("Analyze() without a cache = %v, %v, want a document and no refusal", d, refused)
	}
}

func TestCacheStaysWithinBounds(t *testing.T) {
	c := newCache(10, 1<<20)
	for i := range 1000 {
		_, _ = c.Analyze(fmt.Sprintf("{a%d}", i), nil)
	}
	if c.lru.Len() != 10 {
		t.Errorf("cached entries = %d, want 10", c.lru.Len())
	}
	c = newCache(10_000, 100_000)
	for i := range 2000 {
		_, _ = c.Analyze(fmt.Sprintf("query A%d{a}", i), nil)
	}
	if c.bytes > 100_000 || c.bytes < 50_000 {
		t.Errorf("cached bytes = %d, want 50000 to 100000", c.bytes)
	}
	sum := 0
	for _, r := range c.lru.Values() {
		sum += r.bytes
	}
	if sum != c.bytes {
		t.Errorf("counted bytes = %d, want the sum %d of the entries", c.bytes, sum)
	}
	before := c.lru.Len()
	if d, _ := c.Analyze(strings.Repeat("query A{a}", 1000), nil); len(d.Operations) != 1000 || c.lru.Len() != before {
		t.Errorf("document with %d operations: %d cached entries, want 1000 operations and still %d entries",
			len(d.Operations), c.lru.Len(), before)
	}
}

func TestCacheConcurrentUse(t *testing.T) {
	c := newCache(50, 1<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := (i*7 + g) % 100
				if d, refused := c.Analyze(fmt.Sprintf("query A{%s}", strings.Repeat("a ", n+1)), nil); refused != nil ||
					d.Operations[0].Complexity != n+1 {
					t.Errorf("Analyze(%d fields) = %v, %v, want complexity %d and no refusal", n+1, d, refused, n+1)
				}
			}
		})
	}
	wg.Wait()
}

// TestCacheKeyHasIgnoredNames checks that different lists of ignored
// names have different keys, even if their concatenations are equal.
func TestCacheKeyHasIgnoredNames(t *testing.T) {
	t.Parallel()
	c := NewCache()
	for _, test := range []struct {
		ignored []string
		want    int
	}{{[]string{"a", "bc"}, 2}, {[]string{"ab", "c"}, 0}, {[]string{"abc"}, 2}} {
		got, refused := c.Analyze("{ab{x{y}}}", test.ignored)
		if refused != nil || got.Operations[0].Depth != test.want {
			t.Errorf("Analyze() that ignores the names %q = %+v, %v, want a depth of %d and no refusal",
				test.ignored, got, refused, test.want)
		}
	}
}

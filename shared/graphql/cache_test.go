package graphql

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestACacheAnswersWhatItWouldFindOut(t *testing.T) {
	c := newCache(100, 1<<20)
	texts := []string{"{a}", "{a{b}}", "{a", "query A{a} query B{b}", "{__schema{types{name}}}", "{a{edges{b}}}"}
	for range 3 {
		for _, text := range texts {
			for _, ignored := range [][]string{nil, {"a"}, {"edges"}, {"a", "edges"}} {
				got, refused := c.Analyse(text, ignored)
				want, wantRefused := Analyse(text, ignored)
				if fmt.Sprint(got, refused) != fmt.Sprint(want, wantRefused) {
					t.Errorf("%s without %q: %v %v, want %v %v", text, ignored, got, refused, want, wantRefused)
				}
			}
		}
	}
	if want := len(texts) * 4; c.known.Len() != want {
		t.Errorf("%d are known, want %d", c.known.Len(), want)
	}
}

func TestACacheRemembers(t *testing.T) {
	c := NewCache()
	first, _ := c.Analyse("{a}", nil)
	if second, _ := c.Analyse("{a}", nil); first != second {
		t.Error("counted twice")
	}
	var none *Cache
	if d, refused := none.Analyse("{a}", nil); d == nil || refused != nil {
		t.Errorf("%v %v", d, refused)
	}
}

func TestACacheKeepsWithinItsBounds(t *testing.T) {
	c := newCache(10, 1<<20)
	for i := range 1000 {
		_, _ = c.Analyse(fmt.Sprintf("{a%d}", i), nil)
	}
	if c.known.Len() != 10 {
		t.Errorf("%d entries", c.known.Len())
	}
	c = newCache(10_000, 100_000)
	for i := range 2000 {
		_, _ = c.Analyse(fmt.Sprintf("query A%d{a}", i), nil)
	}
	if c.bytes > 100_000 || c.bytes < 50_000 {
		t.Errorf("%d bytes", c.bytes)
	}
	sum := 0
	for _, r := range c.known.Values() {
		sum += r.bytes
	}
	if sum != c.bytes {
		t.Errorf("counts %d bytes of %d", c.bytes, sum)
	}
	before := c.known.Len()
	if d, _ := c.Analyse(strings.Repeat("query A{a}", 1000), nil); len(d.Operations) != 1000 || c.known.Len() != before {
		t.Errorf("a document of a thousand operations is kept: %d entries, %d before", c.known.Len(), before)
	}
}

func TestACacheIsForManyAtOnce(t *testing.T) {
	c := newCache(50, 1<<20)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				n := (i*7 + g) % 100
				if d, refused := c.Analyse(fmt.Sprintf("query A{%s}", strings.Repeat("a ", n+1)), nil); refused != nil || d.Operations[0].Complexity != n+1 {
					t.Errorf("%d: %v %v", n, d, refused)
				}
			}
		})
	}
	all.Wait()
}

// TestCacheTellsNamesApart that are ignored, and not only what they are put together.
func TestCacheTellsNamesApart(t *testing.T) {
	t.Parallel()
	c := NewCache()
	for _, test := range []struct {
		ignored []string
		want    int
	}{{[]string{"a", "bc"}, 2}, {[]string{"ab", "c"}, 0}, {[]string{"abc"}, 2}} {
		got, refused := c.Analyse("{ab{x{y}}}", test.ignored)
		if refused != nil || got.Operations[0].Depth != test.want {
			t.Errorf("without %q: %+v, %v, want a depth of %d", test.ignored, got, refused, test.want)
		}
	}
}

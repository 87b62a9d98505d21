package functions_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/api"
)

// TestAnswersToCallersAreKeptByNoCache: they hold keys and other things that
// the next one who asks must not see, and a refusal may be over in a moment.
func TestAnswersToCallersAreKeptByNoCache(t *testing.T) {
	p := newPopulated(t)
	each(t, private, func(t *testing.T, d api.Declaration) {
		_, a, n := p.good(t, d, p.book.Request(d))
		a.WantHeader("Cache-Control", "no-store")
		path, body := target(t, d, p.book.Request(d), n)
		p.Copy(t).Call("", d.Method, path, body).WantHeader("Cache-Control", "no-store")
	})
}

package functions_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

// TestAuthenticatedResponsesAreNotCached checks that responses to callers with a key forbid caches to store them. Other
// callers must not see them, and a refusal must not last longer than its reason.
func TestAuthenticatedResponsesAreNotCached(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		_, resp, n := p.sendValid(t, d, p.sampleSet.Request(d))
		resp.WantHeader("Cache-Control", "no-store")
		path, body := requestTarget(t, d, p.sampleSet.Request(d), n)
		p.Copy(t).Call("", d.Method, path, body).WantHeader("Cache-Control", "no-store")
	})
}

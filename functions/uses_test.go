package functions_test

import (
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/api"
)

// beside are the uses of operations while others write, which no request shows by itself: a test of the group does.
var beside = map[string][]api.Use{
	"AuditLogsService_list": {api.BatchGetItem}, // TestListsBesideAChainThatMoves
}

// TestEveryOperationUsesWhatItDeclares compares, both ways, what an operation
// does outside its process with what its function will be granted. A use that is
// missing fails in AWS alone; one that is never made is a grant too many, or a
// case that no sample shows: add it to "also" of the operation's good request. What carries others does what they do.
func TestEveryOperationUsesWhatItDeclares(t *testing.T) {
	p := newPopulated(t)
	each(t, func(d api.Declaration) bool { return !d.Carries }, func(t *testing.T, d api.Declaration) {
		var done []api.Use
		for _, r := range variants(p.book, d) {
			w, _, _ := p.good(t, d, r)
			done = append(done, w.Uses.Done()...)
			w, _, _ = p.good(t, d, r, "Idempotency-Key", "a", "If-Match", "*")
			done = append(done, w.Uses.Done()...)
		}
		if d.Conditional() && slices.Contains(d.Uses, api.RootKey) {
			done = append(done, api.RootKey) // a read opens what its query asks for
		}
		done = append(done, beside[d.ID]...)
		for _, u := range d.Uses {
			if !slices.Contains(done, u) {
				t.Errorf("it declares that it does %q, and none of its good requests does: take it out of Uses, or add such a request to samples.json", u)
			}
		}
		for _, u := range done {
			if !slices.Contains(d.Uses, u) {
				t.Errorf("it does %q, which it does not declare: add it to Uses", u)
			}
		}
	})
}

package functions_test

import (
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

// concurrentUses has the uses that operations have only during concurrent writes. Tests of the groups cover them.
var concurrentUses = map[string][]api.Use{
	"AuditLogsService_list": {api.BatchGetItem}, // TestListDuringChaining
}

// TestOperationsUseDeclaredGrants checks that valid requests of an operation have exactly the uses that it declares. A
// use that is not declared fails only in AWS. A declared use that never occurs is an unnecessary grant, or needs a
// further sample: add one to "also" of the operation's valid request. The test skips operations whose requests contain
// others, because they have the uses of these others.
func TestOperationsUseDeclaredGrants(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, func(d api.Declaration) bool {
		return !d.ContainsRequests
	}, func(t *testing.T, d api.Declaration) {
		var used []api.Use
		for _, r := range variants(p.sampleSet, d) {
			fx, _, _ := p.sendValid(t, d, r)
			used = append(used, fx.Uses.Recorded()...)
			fx, _, _ = p.sendValid(t, d, r, "Idempotency-Key", "a", "If-Match", "*")
			used = append(used, fx.Uses.Recorded()...)
		}
		if d.AcceptsIfMatch() && slices.Contains(d.Uses, api.RootKey) {
			used = append(used, api.RootKey) // reads open sealed values only if the query requests them
		}
		used = append(used, concurrentUses[d.ID]...)
		for _, u := range d.Uses {
			if !slices.Contains(used, u) {
				t.Errorf("%s declares %q, want a sample in samples.json that does it, or no such use", d.ID, u)
			}
		}
		for _, u := range used {
			if !slices.Contains(d.Uses, u) {
				t.Errorf("%s does %q, want it declared in Uses", d.ID, u)
			}
		}
	})
}

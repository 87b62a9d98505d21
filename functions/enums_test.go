package functions_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// laterValue is a state, a kind or a source that this release does not know.
const laterValue = "ofALaterRelease"

// TestUnknownEnumValuesAreTolerated stores states, kinds, sources and scopes of a newer release, which this release
// does not know. No operation must fail because of them, and an operation must change them only if this is its purpose.
func TestUnknownEnumValuesAreTolerated(t *testing.T) {
	p := newPopulatedFixture(t)
	structs, types := structAttributes(t), parseStoredTypes(t)
	isStruct := func(name string) bool { return structs[name] }
	accept := fewerIfRacing(anyOperation)
	requestedChanges := map[string][]string{ // the attributes whose change is the purpose of an operation
		"DeploymentsService_delete":            {"source"},
		"DeploymentsService_deleteFromProject": {"source"},
		"MeteringSubscriptionsService_update":  {"status", "trialEndsAs"},
		"MeteringPlansService_update":          {"trialEndStatus"},
	}
	valueCount := 0
	for _, name := range slices.Sorted(maps.Keys(types.attributes)) {
		if !types.isEnum(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				laterFixture := p.Copy(t)
				valueCount += setLaterValues(t, laterFixture, name, isStruct)
				for _, g := range groups() {
					if group := onlyGroup(t); group != "" && group != g.Name {
						continue
					}
					for _, d := range g.Declarations() {
						if !accept(d) {
							continue
						}
						for _, r := range variants(p.sampleSet, d) {
							fx := laterFixture.Copy(t)
							path, body := requestTarget(t, d, r, p.values)
							resp := fx.CallContext(fx.Context(), p.key, d.Method, path, body)
							if resp.Status >= http.StatusInternalServerError {
								t.Errorf("%s = %d %s, want a status below 500", d.ID, resp.Status, resp.Body)
							}
							if !d.Mutates() || slices.Contains(requestedChanges[d.ID], name) {
								continue
							}
							before := laterFixture.Items.Snapshot()
							for key, after := range fx.Items.Snapshot() {
								if earlier := before[key]; earlier != nil && !slices.Equal(enumValues(earlier, name, isStruct),
									enumValues(after, name, isStruct)) {
									t.Errorf("%s: enum values in %s %s = %v, want the values of the newer release %v",
										d.ID, key.PK, key.SK, enumValues(after, name, isStruct), enumValues(earlier, name, isStruct))
								}
							}
						}
					}
				}
			})
		})
	}
	if onlyGroup(t) == "" && valueCount < 50 {
		t.Errorf("%d enum values were tested, want 50 or more", valueCount)
	}
}

// setLaterValues sets each attribute with this name in a fixture's table to laterValue, and returns the number of these
// attributes.
func setLaterValues(t *testing.T, fx *functionstest.Fixture, name string, isStruct func(string) bool) (count int) {
	t.Helper()
	modified := memory.New()
	for key, item := range fx.Items.Items() {
		storetest.Parts(item, isStruct, func(_ string, part store.Item) {
			if v := storetest.WithText(part[name], laterValue); v != nil {
				part[name] = v
				count++
			}
		})
		err := modified.Transact(t.Context(), "newer "+key.PK+" "+key.SK,
			[]store.Write{{Kind: store.PutKind, Key: key, Item: item}})
		if err != nil {
			t.Fatal(err)
		}
	}
	fx.Items.Restore(modified)
	fx.Restart()
	return count
}

// enumValues returns the values of all attributes with this name in an item.
func enumValues(item store.Item, name string, isStruct func(string) bool) (out []string) {
	storetest.Parts(item, isStruct, func(_ string, part store.Item) {
		out = append(out, storetest.Texts(part[name])...)
	})
	return out
}

package functions_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// laterWord is a state, a kind or a source that this release does not know.
const laterWord = "ofALaterRelease"

// TestWordsOfANewerReleaseBreakNothing: a newer release has states, kinds, sources and scopes that this one has never
// heard of. No operation fails for one, and none changes one but those that are told to.
func TestWordsOfANewerReleaseBreakNothing(t *testing.T) {
	p := newPopulated(t)
	structs, in := structured(t), whatIsStored(t)
	inside := func(name string) bool { return structs[name] }
	accept := sampled(every)
	told := map[string][]string{ // by their requests, of which a deletion is one
		"DeploymentsService_delete":            {"source"},
		"DeploymentsService_deleteFromProject": {"source"},
		"MeteringSubscriptionsService_update":  {"status", "trialEndsAs"},
		"MeteringPlansService_update":          {"trialEndStatus"},
	}
	met := 0
	for _, name := range slices.Sorted(maps.Keys(in.attributes)) {
		if !in.word(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed := p.Copy(t)
				met += newerWords(t, changed, name, inside)
				for _, g := range groups() {
					if only := only(t); only != "" && only != g.Name {
						continue
					}
					for _, d := range g.Declarations() {
						if !accept(d) {
							continue
						}
						for _, r := range variants(p.book, d) {
							w := changed.Copy(t)
							path, body := target(t, d, r, p.names)
							if a := w.Within(w.Context(), p.key, d.Method, path, body); a.Status >= http.StatusInternalServerError {
								t.Errorf("%s: %d %s", d.ID, a.Status, a.Body)
							}
							if !d.Mutates() || slices.Contains(told[d.ID], name) {
								continue
							}
							before := changed.Items.Snapshot()
							for key, after := range w.Items.Snapshot() {
								if was := before[key]; was != nil && !slices.Equal(wordsOf(was, name, inside), wordsOf(after, name, inside)) {
									t.Errorf("%s makes %v of %v in %s %s, which a newer release has written", d.ID, wordsOf(after, name, inside), wordsOf(was, name, inside), key.PK, key.SK)
								}
							}
						}
					}
				}
			})
		})
	}
	if only(t) == "" && met < 50 {
		t.Errorf("only %d words were met", met)
	}
}

// newerWords has a newer release's word in each attribute of the name that a world's table has, and tells how many there are.
func newerWords(t *testing.T, w *functionstest.World, name string, inside func(string) bool) (changed int) {
	t.Helper()
	next := memory.New()
	for key, item := range w.Items.Items() {
		storetest.Parts(item, inside, func(_ string, part store.Item) {
			if v := storetest.WithWord(part[name], laterWord); v != nil {
				part[name] = v
				changed++
			}
		})
		if err := next.Transact(t.Context(), "newer "+key.PK+" "+key.SK, []store.Write{{Kind: store.PutKind, Key: key, Item: item}}); err != nil {
			t.Fatal(err)
		}
	}
	w.Items.Restore(next)
	w.Restart()
	return changed
}

// wordsOf are the words of an item's attributes of the name.
func wordsOf(item store.Item, name string, inside func(string) bool) (out []string) {
	storetest.Parts(item, inside, func(_ string, part store.Item) {
		out = append(out, storetest.Words(part[name])...)
	})
	return out
}

package trail_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/store"
)

// moving is a table whose chain moves on whenever chained records are read.
type moving struct {
	store.Backend
	mu      sync.Mutex
	chained map[string]bool // the partitions
	step    func()
}

func (m *moving) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if m.chained[q.PK] {
		m.mu.Lock()
		m.step()
		m.mu.Unlock()
	}
	return m.Backend.Query(ctx, q)
}

// TestAListIsReadWhileTheChainMovesOn: however long it takes to read records, and
// however fast others come meanwhile, a walk is answered, and has what was there
// when it began, each record once.
func TestAListIsReadWhileTheChainMovesOn(t *testing.T) {
	created := func(n int) (out []change) {
		for i := range n {
			out = append(out, change{ago: time.Duration(i) * time.Second, action: "key-bucket.create", actor: "akey_1"})
		}
		return out
	}
	for name, f := range map[string]trail.Filter{"all": {}, "of an action": {Action: "key-bucket.create"}, "of an actor": {Actor: "akey_1"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.record(created(40)...)
			w.chain()
			w.record(created(10)...) // not chained yet
			b := &moving{Backend: w.items, chained: map[string]bool{}, step: func() {
				w.record(created(1)...)
				w.chain()
			}}
			for n := range audit.ChainedShards {
				b.chained[audit.Chained(acme, n)] = true
			}
			list := w.over(b)
			f.From, f.To = w.now.Add(-time.Hour).Truncate(time.Minute), w.now.Add(time.Hour).Truncate(time.Minute)
			for _, page := range []store.Page{{Limit: 7}, {Limit: 100}, {Limit: 7, Offset: 3}} {
				there, seen := w.made, map[string]bool{}
				for pages := 0; ; pages++ {
					before := w.made
					found, err := list.List(t.Context(), acme, f, page)
					if err != nil {
						t.Fatal(err)
					}
					full := min(page.Limit, max(0, found.Total-page.Offset))
					if found.Total != before || page.After == "" && len(found.Entries) != full || found.HasMore && len(found.Entries) != page.Limit {
						t.Fatalf("%+v has %d entries of %d, more %v; %d were there", page, len(found.Entries), found.Total, found.HasMore, before)
					}
					for _, e := range found.Entries {
						if at := fmt.Sprint(trail.Position(e)); seen[at] {
							t.Fatalf("%+v: %s comes twice", page, at)
						} else {
							seen[at] = true
						}
					}
					if !found.HasMore {
						break
					}
					page.After, page.Offset = found.Next(), 0
				}
				if len(seen) < there-3 {
					t.Errorf("%+v: saw %d of %d", page, len(seen), there)
				}
			}
		})
	}
}

package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// interrupted has something happen before the next change of the table, once.
type interrupted struct {
	store.Backend
	first func()
}

// Transact implements store.Backend.
func (i *interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	changes := slices.ContainsFunc(writes, func(w store.Write) bool { return !audit.IsRecord(w.Key) })
	if first := i.first; first != nil && changes {
		i.first = nil
		first()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// outcome is what changes have come to: how each was answered, and what is in the
// table, as far as it does not depend on chance.
func outcome(t *testing.T, answered []int, w *functionstest.World) string {
	t.Helper()
	var lines []string
	for key, item := range w.Items.Snapshot() {
		if audit.IsRecord(key) {
			continue
		}
		record, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(key.PK, "#")
		lines = append(lines, kind+numbers(string(record)))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d\n%s", answered, strings.Join(lines, "\n"))
}

// numbers returns the attributes of a record, encoded as JSON, whose values have one to six digits and nothing else.
func numbers(record string) string {
	var found strings.Builder
	before, after, more := strings.Cut(record, `":{"Value":"`)
	for more {
		value, _, _ := strings.Cut(after, `"`)
		if _, err := strconv.ParseUint(value, 10, 64); err == nil && len(value) <= 6 {
			fmt.Fprintf(&found, " %s=%s", before[strings.LastIndexByte(before, '"')+1:], value)
		}
		before, after, more = strings.Cut(after, `":{"Value":"`)
	}
	return found.String()
}

// change is a good request of an operation.
type change struct {
	api.Declaration
	events.Request
}

// TestChangesAtOnceComeToWhatOneAfterTheOtherDoes has each change of a group
// meet each other one, itself too, between what it reads and what it commits;
// and a deletion of what it is about, after which that is made anew. What comes
// of it is what comes of them in one order or another. Two goroutines over the
// table in memory seldom meet there.
func TestChangesAtOnceComeToWhatOneAfterTheOtherDoes(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		own := change{d, p.book.Request(d)}
		for _, other := range p.neighbours(d) {
			p.meet(t, own, other)
		}
		for _, r := range own.Also {
			if !r.ChangesNothing {
				p.meet(t, change{d, r}, change{d, r})
			}
		}
		for i, r := range variants(p.book, d) {
			if i > 0 && len(r.Names) == 0 || len(r.After) > 0 {
				continue // only by other names, such as ids
			}
			for _, other := range p.neighbours(d) {
				if in := objects(other.Declaration); other.Method == http.MethodDelete && len(in) > 0 && slices.Contains(objects(d), in[len(in)-1]) {
					p.meet(t, change{d, r}, other, p.anew(t, d)...)
				}
			}
		}
	})
}

// TestChangesInTheMiddleOfAReadComeToWhatOneAfterTheOtherDoes has each other
// change of a group happen between the items that one reads, which are no
// snapshot: before the last of them, and before each but the first.
func TestChangesInTheMiddleOfAReadComeToWhatOneAfterTheOtherDoes(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		for _, other := range p.neighbours(d) {
			for seed := range simulations.Runs(2) {
				p.meetAt(t, inARead(seed), change{d, p.book.Request(d)}, other)
			}
		}
	})
}

// groupOf is the group of an operation.
func groupOf(d api.Declaration) functions.Group {
	all := groups()
	return all[slices.IndexFunc(all, func(g functions.Group) bool {
		return slices.ContainsFunc(g.Declarations(), func(own api.Declaration) bool { return own.ID == d.ID })
	})]
}

// neighbours are the changes of an operation's group.
func (p populated) neighbours(d api.Declaration) (out []change) {
	for _, other := range groupOf(d).Declarations() {
		if other.Mutates() {
			out = append(out, change{other, p.book.Request(other)})
		}
	}
	return out
}

// anew are the changes that make the world of an operation's group once more.
// Those of what is still there are refused.
func (p populated) anew(t *testing.T, d api.Declaration) (out []change) {
	t.Helper()
	world, err := events.Load(groupOf(d).Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range world.World {
		for _, other := range p.neighbours(d) {
			if other.ID != s.Operation {
				continue
			}
			if s.Body != nil {
				other.Body = s.Body
			}
			out = append(out, other)
		}
	}
	return out
}

// meet compares what comes of b and the rest between the look and the commit of
// a with what comes of all of them one after the other: a first, after b, or last.
func (p populated) meet(t *testing.T, a, b change, rest ...change) {
	t.Helper()
	if !p.meetAt(t, beforeTheCommit, a, b, rest...) {
		t.Errorf("%s changes nothing", a.ID)
	}
}

// moment has others happen once while a change is made.
type moment func(w *functionstest.World, backend *interrupted, others func())

func beforeTheCommit(_ *functionstest.World, backend *interrupted, others func()) {
	backend.first = others
}

// inARead is a moment between two items of one read, as seed chooses.
func inARead(seed int) moment {
	return func(w *functionstest.World, _ *interrupted, others func()) {
		gaps := seed % 3 // are left alone before
		w.Items.Tear(uint64(seed), func(context.Context) error {
			if gaps--; gaps == none {
				w.Items.Tear(0, nil)
				others()
			}
			return nil
		})
	}
}

// meetAt is meet at a moment of a, and tells whether it came.
func (p populated) meetAt(t *testing.T, at moment, a, b change, rest ...change) (came bool) {
	t.Helper()
	others := append([]change{b}, rest...)
	begin := func() (w *functionstest.World, backend *interrupted, call func(change) int) {
		w = p.Copy(t)
		n := maps.Clone(p.names)
		steps := slices.Clone(a.After)
		for _, b := range others {
			if a.ID != b.ID {
				steps = append(steps, b.After...)
			}
		}
		if err := p.book.Steps(w.Client(p.key), n, steps); err != nil {
			t.Fatal(err)
		}
		backend = &interrupted{Backend: w.Items}
		w.Parts.Table = storetest.Over(t, backend, storetest.Clock(w.Parts.Now))
		w.Now = w.Now.Add(time.Second) // audit records of the steps have other ids
		w.Restart()
		return w, backend, func(c change) int {
			path, body := target(t, c.Declaration, c.Request, n)
			return w.Call(p.key, c.Method, path, body).Status
		}
	}
	var names, inTurn []string
	for _, b := range others {
		names = append(names, b.ID)
	}
	for place := range len(others) + 1 {
		if 1 < place && place < len(others) {
			continue
		}
		w, _, call := begin()
		answered := make([]int, len(others)+1)
		for i, b := range others {
			if i == place {
				answered[0] = call(a)
			}
			answered[i+1] = call(b)
		}
		if place == len(others) {
			answered[0] = call(a)
		}
		inTurn = append(inTurn, outcome(t, answered, w))
	}
	w, backend, call := begin()
	answered := make([]int, len(others)+1)
	at(w, backend, func() {
		came = true
		for i, b := range others {
			answered[i+1] = call(b)
		}
	})
	answered[0] = call(a)
	if !came {
		return false
	}
	if got := outcome(t, answered, w); !slices.Contains(inTurn, got) {
		t.Errorf("%s in the middle of %s comes to %s\n\none after the other, to\n%s",
			strings.Join(names, " and "), a.ID, got, strings.Join(inTurn, "\n\nor to\n"))
	}
	return true
}

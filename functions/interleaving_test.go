package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
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
	changes := slices.ContainsFunc(writes, func(w store.Write) bool { return !isAudit(w.Key) })
	if first := i.first; first != nil && changes {
		i.first = nil
		first()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// outcome is what two changes have come to: how each was answered, and what is
// in the table, as far as it does not depend on chance.
func outcome(t *testing.T, first, second int, w *functionstest.World) string {
	t.Helper()
	number := regexp.MustCompile(`"(\w+)":\{"Value":"(\d{1,6})"\}`)
	var lines []string
	for key, item := range w.Items.Items() {
		if isAudit(key) {
			continue
		}
		record, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(key.PK, "#")
		line := kind
		for _, found := range number.FindAllStringSubmatch(string(record), -1) {
			line += " " + found[1] + "=" + found[2]
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d %d\n%s", first, second, strings.Join(lines, "\n"))
}

// change is a good request of an operation.
type change struct {
	api.Declaration
	events.Request
}

// TestChangesAtOnceComeToWhatOneAfterTheOtherDoes has each change of a group
// meet each other one, itself too, between what it reads and what it commits.
// What comes of it is what comes of the two in one order or the other. Two
// goroutines over the table in memory seldom meet there.
func TestChangesAtOnceComeToWhatOneAfterTheOtherDoes(t *testing.T) {
	p := newPopulated(t)
	each(t, changing, func(t *testing.T, d api.Declaration) {
		for _, other := range neighbours(d) {
			p.meet(t, change{d, p.book.Request(d)}, change{other, p.book.Request(other)})
		}
		for _, r := range p.book.Request(d).Also {
			p.meet(t, change{d, r}, change{d, r})
		}
	})
}

// neighbours are the changes of an operation's group.
func neighbours(d api.Declaration) (out []api.Declaration) {
	for _, g := range functions.Groups() {
		all := g.Declarations()
		if slices.ContainsFunc(all, func(own api.Declaration) bool { return own.ID == d.ID }) {
			out = slices.DeleteFunc(all, func(other api.Declaration) bool { return !other.Mutates() })
		}
	}
	return out
}

// meet compares what comes of b between the look and the commit of a with what
// comes of the two one after the other.
func (p populated) meet(t *testing.T, a, b change) {
	t.Helper()
	begin := func() (w *functionstest.World, backend *interrupted, callA, callB func() int) {
		w = p.Copy(t)
		n := maps.Clone(p.names)
		steps := slices.Clone(a.After)
		if a.ID != b.ID {
			steps = append(steps, b.After...)
		}
		if err := p.book.Steps(w.Client(p.key), n, steps); err != nil {
			t.Fatal(err)
		}
		backend = &interrupted{Backend: w.Items}
		w.Parts.Table = storetest.Over(t, backend, storetest.Clock(w.Parts.Now))
		w.Now = w.Now.Add(time.Second) // audit records of the steps have other ids
		w.Restart()
		call := func(c change) func() int {
			path, body := target(t, c.Declaration, c.Request, n)
			return func() int { return w.Call(p.key, c.Method, path, body).Status }
		}
		return w, backend, call(a), call(b)
	}
	w, _, callA, callB := begin()
	first := callA()
	ab := outcome(t, first, callB(), w)
	w, _, callA, callB = begin()
	second := callB()
	ba := outcome(t, callA(), second, w)
	w, backend, callA, callB := begin()
	backend.first = func() { second = callB() }
	first = callA()
	if got := outcome(t, first, second, w); got != ab && got != ba {
		t.Errorf("%s between the look and the commit of %s comes to %s\n\nafter it, to %s\n\nbefore it, to %s", b.ID, a.ID, got, ab, ba)
	}
	if backend.first != nil {
		t.Errorf("%s changes nothing", a.ID)
	}
}

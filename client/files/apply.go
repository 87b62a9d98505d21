package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
)

// How a plan is applied, whatever happens to who does it.
//
// Each request is noted before it is sent and after it was answered (journal.go), and is the same one whenever it is sent again: by its
// Idempotency-Key, which the API keeps for a day, and by its condition. So what is killed between the two is sent again, and makes
// nothing twice. Of a deletion, which has no such key, one that finds nothing is done.
//
// A change whose condition does not hold any more ends it: nothing after it is made. It is told what has moved, and by whom.

// KeptFor is how long the API answers a request that is sent again as it did the first time (contract 9), less an hour for clocks that
// differ.
const KeptFor = 23 * time.Hour

// pollEvery is how often it is asked how a deletion goes on.
const pollEvery = time.Second

// Applying says how a plan is applied.
type Applying struct {
	// Path is the plan's file, beside which it is kept how far it is; "" for a plan that is in none.
	Path   string
	Getenv func(string) string
	Now    func() time.Time
	// Sleep waits between questions, and Told is told of each change that is made, and of how many.
	Sleep func(context.Context, time.Duration) error
	Told  func(n, of int, c Change)
	// Installation is where it is asked for.
	Installation string
}

// Applied is how it went.
type Applied struct {
	Made   int `json:"made"`
	Before int `json:"madeBefore"`
}

// applier applies.
type applier struct {
	*state
	plan    *Plan
	o       Applying
	journal *journal
}

// Apply makes the changes of a plan, one after the other, and goes on where it was ended before.
func Apply(ctx context.Context, api API, p *Plan, o Applying) (result Applied, err error) {
	account, err := api.Account(ctx)
	if err != nil {
		return result, err
	}
	if p.Installation != o.Installation || p.Account != account {
		return result, usage("the plan is of the account %s of %s, and this one is %s of %s: choose the other by --profile, or plan again", p.Account, p.Installation, account, o.Installation)
	}
	a := &applier{state: &state{api: api, account: account, told: map[*Kind]bool{}}, plan: p, o: o, journal: &journal{ids: map[string]string{}}}
	if a.kinds, err = fieldsOfAll(Kinds()); err != nil {
		return result, err
	}
	if o.Path != "" {
		if a.journal, err = openJournal(o.Path, p); err != nil {
			return result, err
		}
	}
	defer func() { err = errors.Join(err, a.journal.close()) }()
	result.Before = a.journal.done
	secrets, err := a.secrets()
	if err != nil {
		return result, err
	}
	for i := a.journal.done; i < len(p.Changes); i++ {
		if err := a.one(ctx, i, secrets[i]); err != nil {
			return result, err
		}
		result.Made++
		if o.Told != nil {
			o.Told(i+1, len(p.Changes), p.Changes[i])
		}
	}
	return result, nil
}

// secrets reads those of all changes that are left, before the first is made.
func (a *applier) secrets() (map[int]map[string]string, error) {
	found := map[int]map[string]string{}
	for i := a.journal.done; i < len(a.plan.Changes); i++ {
		for name, from := range a.plan.Changes[i].Secrets {
			value, err := from.Value(a.o.Getenv)
			if err != nil {
				return nil, usage("%s of the %s %s: %w", name, a.plan.Changes[i].Kind, strings.Join(a.plan.Changes[i].Name, " "), err)
			}
			if found[i] == nil {
				found[i] = map[string]string{}
			}
			found[i][name] = value
		}
	}
	return found, nil
}

// one makes a change.
func (a *applier) one(ctx context.Context, i int, secrets map[string]string) error {
	c, again := &a.plan.Changes[i], a.journal.begun != nil
	about := fmt.Sprintf("%s the %s %s", c.Do, c.Kind, strings.Join(c.Name, " "))
	if again && c.Do == Create && a.o.Now().Sub(*a.journal.begun) > KeptFor {
		return exit.With(exit.Conflict, fmt.Errorf("%s: it was begun more than a day ago, and whether it was made is not known any more: plan again", about))
	}
	arguments, err := a.arguments(c)
	if err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	for name, value := range secrets {
		arguments[name] = value
	}
	if err := a.journal.begin(i+1, a.o.Now()); err != nil {
		return err
	}
	answer, err := a.ask(ctx, c.Operation, arguments)
	if err != nil {
		if done, wrong := a.refused(ctx, i, err, again); !done {
			return a.left(about, i, wrong)
		}
	}
	id := c.ID
	if answer != nil {
		if c.Do == Create {
			id = a.idOf(c, answer.Body)
		}
		if err := a.await(ctx, c, arguments, answer.Body); err != nil {
			return a.left(about, i, err)
		}
	}
	return a.journal.finish(i+1, c.Key, id)
}

// left says how far it is, where it ends before its end.
func (a *applier) left(about string, i int, err error) error {
	if _, moved := errors.AsType[*MovedError](err); moved {
		return err
	}
	on := "plan again"
	if a.o.Path != "" {
		on = "the same command goes on from there"
	}
	return fmt.Errorf("%s: %w\n%d of %d changes are made; %s", about, err, i, len(a.plan.Changes), on)
}

// arguments are those of a change, with the ids of what was made before it.
func (a *applier) arguments(c *Change) (map[string]any, error) {
	arguments := map[string]any{}
	for name, value := range c.Arguments {
		arguments[name] = value
	}
	for _, need := range c.Needs {
		var ids []string
		for _, of := range need.Of {
			id, known := strings.CutPrefix(of, "=")
			if !known {
				if id = a.journal.ids[of]; id == "" {
					return nil, errors.New("it needs what an earlier change makes, whose id is not known: plan again")
				}
			}
			ids = append(ids, id)
		}
		if arguments[need.Argument] = any(ids); !need.List {
			arguments[need.Argument] = ids[0]
		}
	}
	if c.IfMatch != "" {
		arguments["ifMatch"] = c.IfMatch
	}
	if c.Try != "" {
		arguments["idempotencyKey"] = c.Try
	}
	return arguments, nil
}

// idOf is the id of what was made, "" where its name is its id.
func (a *applier) idOf(c *Change, body []byte) string {
	var members map[string]Value
	_ = json.Unmarshal(body, &members)
	for _, k := range all(Kinds()) {
		if k.Create == c.Operation {
			if id := textOf(members[k.Made]); id != "" {
				return id
			}
			return textOf(members[k.ID])
		}
	}
	return ""
}

// kind is that of a change.
func (a *applier) kind(c *Change) *Kind {
	for k := range a.kinds {
		if slices.Contains([]string{k.Create, k.Update, k.Delete}, c.Operation) || k.Apart != nil && k.Apart.Write == c.Operation {
			return k
		}
	}
	return nil
}

// await waits for the end of a deletion that goes on.
func (a *applier) await(ctx context.Context, c *Change, arguments map[string]any, body []byte) error {
	k := a.kind(c)
	if c.Do != Delete || k.Awaits == "" {
		return nil
	}
	for {
		if len(bytes.TrimSpace(body)) == 0 {
			return nil // it is done
		}
		id, done, err := call.Ended(body)
		if err != nil || done {
			return err
		}
		if err := a.o.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("wait for the operation %s, which goes on: %w", id, err)
		}
		asked := maps.Clone(arguments)
		asked["operationId"] = id
		answer, err := a.ask(ctx, k.Awaits, asked)
		if err != nil {
			return err
		}
		body = answer.Body
	}
}

// seen is the object of a change as it is asked for: its arguments are those of all above it too.
func (a *applier) seen(c *Change) *seen {
	k := a.kind(c)
	o := &seen{kind: k, name: c.Name[len(c.Name)-1], id: c.ID, fields: c.Before}
	if o.id == "" {
		o.id = a.journal.ids[c.Key]
	}
	above := &seen{}
	parents := []*Kind{}
	for p := k.parent; p != nil; p = p.parent {
		parents = append([]*Kind{p}, parents...)
	}
	ids, _ := a.arguments(c)
	for i, p := range parents {
		id := ""
		switch given := ids[p.Argument].(type) {
		case string:
			id = given
		case Value:
			id = textOf(given)
		}
		above = &seen{kind: p, name: c.Name[i], id: id, parent: above}
	}
	o.parent = above
	return o
}

// refused decides about a change that the API refuses: done is one that is made all the same, since an answer was lost.
func (a *applier) refused(ctx context.Context, i int, err error, again bool) (done bool, wrong error) {
	c := &a.plan.Changes[i]
	problem, is := errors.AsType[*call.Problem](err)
	const preconditionFailed = 412
	switch {
	case !is:
		return false, err
	case notThere(err) && c.Do == Delete:
		return a.went(ctx, c, again)
	case c.Do == Create:
		return false, a.unmade(ctx, c, problem.Status, err)
	case problem.Status != preconditionFailed && !notThere(err) || c.IfMatch == "":
		return false, err
	}
	fresh, wrong := a.fresh(ctx, c)
	gone := notThere(wrong)
	switch {
	case gone && c.Do == Delete:
		return a.went(ctx, c, again)
	case wrong != nil && !gone:
		return false, errors.Join(err, wrong)
	case !gone && c.Do == Update && again && a.asPlanned(c, fresh):
		return true, nil
	case !gone && c.Do == Delete && a.released(i) && len(a.differing(c, fresh)) == 0:
		return a.deleted(ctx, c, fresh)
	}
	return false, a.moved(ctx, c, fresh)
}

// unmade is the error of an object that is not made: of one whose name another has by now, or whose place is gone, that somebody has
// changed the account since it was planned, and that to repeat it makes nothing.
func (a *applier) unmade(ctx context.Context, c *Change, status int, err error) error {
	switch status {
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity: // by which the API refuses a project's name
	default:
		return err
	}
	another, looked := a.named(ctx, a.seen(c))
	switch {
	case notThere(looked):
		k, name := a.kind(c).parent, c.Name[:len(c.Name)-1]
		for k.Create == "" && k.parent != nil { // a branch is there as its project is
			k, name = k.parent, name[:len(name)-1]
		}
		return a.moved(ctx, &Change{Do: Update, Kind: k.One, Name: name}, nil)
	case looked != nil || another == nil:
		return err
	}
	return a.moved(ctx, c, another)
}

// went decides about a deletion that finds nothing. It is done, but where another object has the name by now, whose id is another: who
// made that wants it to be there. Where the deletion was sent before, that one came after it.
func (a *applier) went(ctx context.Context, c *Change, again bool) (done bool, err error) {
	k := a.kind(c)
	if again || k.ID == k.Key {
		return true, nil
	}
	another, err := a.named(ctx, a.seen(c))
	switch {
	case notThere(err): // what it was in is gone too
		return true, nil
	case err != nil:
		return false, err
	case another == nil || another.id == c.ID:
		return true, nil
	}
	return false, a.moved(ctx, c, another)
}

// fresh is what a change is about, as it is now.
func (a *applier) fresh(ctx context.Context, c *Change) (*seen, error) {
	o := a.seen(c)
	if k := a.kind(c); k.Apart == nil || k.Apart.Write != c.Operation {
		return a.now(ctx, o)
	}
	value, _, err := a.apart(ctx, o)
	o.fields = map[string]Value{o.kind.Apart.Field: value}
	return o, err
}

// asPlanned reports whether an object is as a change makes it: one that was sent before, and whose answer was lost.
func (a *applier) asPlanned(c *Change, now *seen) bool {
	for _, f := range c.Fields {
		field := a.kinds[now.kind].all[f.Name]
		if f.Secret || field == nil || !now.kind.same(field, f.After, now.fields[f.Name]) {
			return false
		}
	}
	return true
}

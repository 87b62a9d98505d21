package files

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/release"
)

// Options say how files are compared with an installation.
type Options struct {
	// Prune plans to delete what complete lists do not name.
	Prune bool
	// SetSecrets plans to set secrets of objects that are there anew: what they are cannot be compared.
	SetSecrets bool
	// Getenv reads the environment, and Now the clock.
	Getenv func(string) string
	Now    func() time.Time
	// Installation is where it is.
	Installation string
}

// What a change does.
const (
	Create = "create"
	Update = "change"
	Delete = "delete"
)

// Plan is what has to be done so that an installation has what files want: in this order, and nothing else.
type Plan struct {
	Format       int       `json:"format"`
	Version      string    `json:"version"`
	Installation string    `json:"installation"`
	Account      string    `json:"account"`
	Made         time.Time `json:"made"`
	Changes      []Change  `json:"changes"`
	// Objects are those that files name, Extra those that complete lists do not name and that stay without Prune; NotCompared are
	// values that the API does not tell.
	Objects     int      `json:"objects"`
	Extra       []string `json:"extra,omitempty"`
	NotCompared int      `json:"notCompared,omitempty"`
	// Digest is of all else.
	Digest string `json:"digest"`
}

// Change is one request.
type Change struct {
	Do   string   `json:"do"`
	Kind string   `json:"kind"`
	Name []string `json:"name"`
	// Key tells the object from all others, and ID and ObjectID are its path's and the audit log's, "" for one that is made.
	Key      string        `json:"key"`
	ID       string        `json:"id,omitempty"`
	ObjectID string        `json:"objectId,omitempty"`
	Fields   []FieldChange `json:"fields,omitempty"`
	// Goes counts what goes with what is deleted, -1 for what may not be counted.
	Goes map[string]int64 `json:"goes,omitempty"`

	Operation string           `json:"operation"`
	Arguments map[string]Value `json:"arguments"`
	// Secrets are the arguments that are read when it is applied, and Needs those that have ids of objects that are made before.
	Secrets map[string]Reference `json:"secrets,omitempty"`
	Needs   []Need               `json:"needs,omitempty"`
	// IfMatch is the condition: the ETag; * for what is made by the change before, or with its project.
	IfMatch string `json:"ifMatch,omitempty"`
	// Before are all fields that it had, by which it is told what has moved.
	Before map[string]Value `json:"before,omitempty"`
	// Try makes a request that is sent again be the same one.
	Try string `json:"idempotencyKey,omitempty"`
}

// FieldChange is a field before and after, both nil for a secret.
type FieldChange struct {
	Name   string `json:"name"`
	Before Value  `json:"before,omitempty"`
	After  Value  `json:"after,omitempty"`
	Secret bool   `json:"secret,omitempty"`
}

// Need is an argument with the id of an object that an earlier change makes, or with a list of such: of their keys, or "=" and an id
// that is known.
type Need struct {
	Argument string   `json:"argument"`
	Of       []string `json:"of"`
	List     bool     `json:"list,omitempty"`
}

// planFormat is raised by what older versions would apply in another way.
const planFormat = 2

// planner compares.
type planner struct {
	*state
	files    *Files
	o        Options
	plan     *Plan
	deletes  []Change
	problems []project.Problem
	// ids are those of plans by their keys, for subscriptions; projects those that are made, and pruned those that are deleted.
	ids              map[string]string
	projects, pruned map[string]bool
	// claimed are the names that only one object may have, and staying the objects that have such and that the plan leaves as they are.
	claimed []claim
	staying []*seen
}

// Compare plans what has to be done. It changes nothing, and asks for lists, and for one object of each kind that changes. Its error has all that
// cannot be done as the files want it, with the places.
func Compare(ctx context.Context, api API, f *Files, o Options) (*Plan, error) {
	account, err := api.Account(ctx)
	if err != nil {
		return nil, err
	}
	p := &planner{
		state: &state{api: api, account: account, kinds: f.fields, told: map[*Kind]bool{}}, files: f, o: o, ids: map[string]string{}, projects: map[string]bool{}, pruned: map[string]bool{},
		plan: &Plan{
			Format: planFormat, Version: release.Version(), Installation: o.Installation, Account: account, Made: o.Now().UTC().Truncate(time.Millisecond), Objects: f.Objects, Changes: []Change{},
		},
	}
	if err := p.within(ctx, f.kinds, f.top, &seen{}); err != nil {
		return nil, err
	}
	slices.Reverse(p.deletes)
	p.plan.Changes = append(p.plan.Changes, p.deletes...)
	if err := p.inOrder(ctx); err != nil {
		return nil, err
	}
	if err := f.invalid(p.problems); err != nil {
		return nil, err
	}
	for i := range p.plan.Changes {
		if c := &p.plan.Changes[i]; c.Do != Delete {
			c.Try = uuid.NewString()
		}
	}
	slices.Sort(p.plan.Extra)
	p.plan.Digest = p.plan.digest()
	return p.plan, nil
}

func (p *planner) problem(at place, format string, args ...any) {
	if len(p.problems) < mostProblems {
		p.problems = append(p.problems, at.problem(format, args...))
	}
}

// within compares what is within an object, of which there is nothing yet where it is made.
func (p *planner) within(ctx context.Context, kinds []*Kind, w *object, s *seen) error {
	for _, k := range kinds {
		_, complete := w.complete[k.Member]
		if _, given := w.below[k.Member]; !given && !complete {
			continue
		}
		have, err := p.have(ctx, k, w, s)
		if err != nil {
			return err
		}
		for _, o := range w.list(k.Member) {
			there := have[k.fold(o.name)]
			delete(have, k.fold(o.name))
			if there, err = p.one(ctx, o, s, there); err != nil {
				return err
			}
			if there == nil {
				continue
			}
			if err := p.within(ctx, k.Below, o, there); err != nil {
				return err
			}
		}
		if !complete {
			p.stays(slices.Collect(maps.Values(have))...)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(have)) {
			if of, _ := ownerOf(name); k.Member == bucketsMember && of != "" {
				continue // an export has none that is as it came, and its project would be left without
			}
			if err := p.extra(ctx, have[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// have is what there is of a kind.
func (p *planner) have(ctx context.Context, k *Kind, w *object, s *seen) (map[string]*seen, error) {
	switch {
	case k.List == "":
		have := map[string]*seen{}
		for _, o := range w.list(k.Member) { // they are there without being made
			have[k.fold(o.name)] = &seen{kind: k, name: o.name, id: o.name, parent: s, made: s.made}
		}
		return have, nil
	case s.made:
		return map[string]*seen{}, nil
	case k.Within != nil:
		return p.children(k, s)
	}
	with := map[string]string{}
	for _, b := range k.Below {
		for _, o := range w.below[k.Member] {
			_, given := o.below[b.Member]
			if _, complete := o.complete[b.Member]; given || complete {
				maps.Copy(with, b.Within)
				break
			}
		}
	}
	have, err := p.list(ctx, k, s, with)
	if err != nil {
		return nil, went(s, err)
	}
	switch k.Member {
	case metering:
		return p.byPlans(ctx, k, w, have)
	case bucketsMember:
		p.addOwn(w.below[k.Member], have, k, s)
	}
	return have, nil
}

// addOwn adds the buckets that come with projects which are made.
func (p *planner) addOwn(wanted map[string]*object, have map[string]*seen, k *Kind, s *seen) {
	for name := range wanted {
		if of, kind := ownerOf(name); p.projects[of] && have[name] == nil {
			have[name] = &seen{
				kind: k, name: name, id: name, parent: s, with: true, made: true, tag: "*",
				fields: map[string]Value{"tags": marshal(map[string]string{"account": p.account, "environmentType": kind, "project": of})},
			}
		}
	}
}

// ownBuckets are the ends of the names of the buckets that each project has, and the tag of each (docs/key-buckets.md).
var ownBuckets = map[string]string{"-production": "PRODUCTION", "-preview": "PREVIEW", "-working-copy": "WORKING_COPY"}

// BucketsOf are the names of the buckets that come and go with a project, in order.
func BucketsOf(project string) []string {
	var names []string
	for _, suffix := range slices.Sorted(maps.Keys(ownBuckets)) {
		names = append(names, project+suffix)
	}
	return names
}

// ownerOf is the project with which a bucket of the name comes and goes, and of which of its environments it is, "" for one of no project's: the API
// gives such names to no other.
func ownerOf(name string) (of, kind string) {
	for suffix, kind := range ownBuckets {
		if of, is := strings.CutSuffix(name, suffix); is {
			return of, kind
		}
	}
	return "", ""
}

// one compares an object, and returns what is there then: nil where that cannot be told, since something is wrong.
func (p *planner) one(ctx context.Context, o *object, parent, there *seen) (*seen, error) {
	if there != nil {
		if of, _ := ownerOf(o.name); o.kind.Member == bucketsMember && p.pruned[of] {
			p.problem(o.at, "The %s %s goes with the project %s, which these files do not name and --prune deletes: name that too, or leave this out.", o.kind.One, o.name, of)
			return nil, nil
		}
		if o.kind.Member == "plans" {
			p.ids[there.key()] = there.id
		}
		return there, p.update(ctx, o, there)
	}
	made := &seen{kind: o.kind, name: o.name, parent: parent, made: true}
	if o.kind.ID == o.kind.Key {
		made.id = o.name
	}
	if o.kind.Member == "plans" {
		p.ids[made.key()] = ""
	}
	if o.kind.Member == projectsMember {
		p.projects[o.name] = true
	}
	if o.kind.WithParent != "" && parent.made && !parent.with {
		return made, nil // it was made with its parent
	}
	if !p.create(o, made) {
		return nil, nil
	}
	return made, nil
}

// change begins one about an object.
func change(do string, s *seen, operation string) Change {
	c := Change{Do: do, Kind: s.kind.One, Key: s.key(), ID: s.id, ObjectID: s.objectID, Operation: operation, Arguments: map[string]Value{}}
	for of := s; of.kind != nil; of = of.parent {
		c.Name = append([]string{of.name}, c.Name...)
	}
	arguments, needs := s.arguments()
	if do == Create {
		c.ID = ""
		arguments, needs = s.parent.arguments()
	}
	for name, value := range arguments {
		c.Arguments[name] = marshal(value)
	}
	c.Needs = needs
	return c
}

// create plans to make an object, and reports whether that can be done.
func (p *planner) create(o *object, made *seen) bool {
	k, f := o.kind, p.kinds[o.kind]
	if k.Create == "" {
		p.problem(o.at, "There is no %s %s, and files make none: make it first, or leave it out.", k.One, o.name)
		return false
	}
	c, before := change(Create, made, k.Create), len(p.problems)
	if f.key != nil {
		c.Arguments[k.Key] = marshal(o.name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		field := f.all[name]
		g, given := o.fields[name]
		switch {
		case field.Needed && (!given || g.from == nil && string(g.value) == "null"):
			p.problem(o.at, "There is no %s %s yet, and it is made with %s alone: add that.", k.One, o.name, name)
		case !given || g.from == nil && string(g.value) == "null" || k.Apart != nil && name == k.Apart.Field:
		case !field.Made:
			p.problem(g.at, "%s cannot be given to a %s that is made: leave it out at first.", name, k.One)
		default:
			p.give(&c, o, name, nil)
		}
	}
	p.pairs(&c, o, made.parent)
	for _, b := range k.Below {
		if b.WithParent != "" && len(o.below[b.Member]) > 0 {
			c.Arguments[b.WithParent] = p.withParent(o.list(b.Member))
			c.Fields = append(c.Fields, FieldChange{Name: b.Member, After: c.Arguments[b.WithParent]})
		}
	}
	if len(p.problems) > before {
		return false
	}
	p.plan.Changes = append(p.plan.Changes, c)
	p.writeApart(o, made, nil, "*")
	return true
}

// withParent is a list of objects that are made with their parent: a name alone, or an object.
func (p *planner) withParent(list []*object) Value {
	var out []any
	for _, o := range list {
		if len(o.fields) == 0 {
			out = append(out, o.name)
			continue
		}
		members := map[string]Value{o.kind.Key: marshal(o.name)}
		for name, g := range o.fields {
			if value, ok := p.literal(g); ok {
				members[name] = value
			}
		}
		out = append(out, members)
	}
	return marshal(out)
}

// give adds what a file has for a field to a change. The value of a secret is looked for, and not kept.
func (p *planner) give(c *Change, o *object, name string, before Value) {
	g := o.fields[name]
	if there := (&seen{kind: o.kind, fields: c.Before}); !p.hidden(o, there, name) {
		value, ok := p.literal(g)
		if !ok {
			return
		}
		c.Arguments[name] = value
		c.Fields = append(c.Fields, FieldChange{Name: name, Before: before, After: value})
		return
	}
	if g.from == nil {
		p.problem(g.at, "%s is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.", name)
		return
	}
	if _, err := g.from.Value(p.o.Getenv); err != nil {
		p.problem(g.at, "%s: %v.", name, err)
		return
	}
	if c.Secrets == nil {
		c.Secrets = map[string]Reference{}
	}
	c.Secrets[name] = *g.from
	c.Fields = append(c.Fields, FieldChange{Name: name, Secret: true})
}

// literal is the value of a field that is no secret.
func (p *planner) literal(g given) (Value, bool) {
	if g.from == nil {
		return g.value, true
	}
	text, err := g.from.Value(p.o.Getenv)
	if err != nil {
		p.problem(g.at, "%v.", err)
		return nil, false
	}
	return marshal(text), true
}

// pairs adds the ids of the siblings that a field names.
func (p *planner) pairs(c *Change, o *object, parent *seen) {
	pair := o.kind.Pairs
	if pair == nil || c.Do != Create {
		return
	}
	g := o.fields[pair.Field]
	need, sibling := Need{Argument: pair.Argument, List: true}, o.kind.parent.below(pair.Member)
	var ids []string
	for _, name := range texts(g.value) {
		key := (&seen{kind: sibling, name: name, parent: parent}).key()
		id, known := p.ids[key]
		if !known {
			p.problem(cmp.Or(g.at, o.at), "There is no %s %s in these files: name it among the %s.", sibling.One, name, pair.Member)
			continue
		}
		ids, need.Of = append(ids, id), append(need.Of, key)
	}
	if slices.Contains(ids, "") {
		for i, id := range ids {
			if id != "" {
				need.Of[i] = "=" + id
			}
		}
		c.Needs = append(c.Needs, need)
		return
	}
	c.Arguments[pair.Argument] = marshal(ids)
}

func texts(v Value) (list []string) {
	all, _ := decoded(v).([]any)
	for _, one := range all {
		if text, is := one.(string); is {
			list = append(list, text)
		}
	}
	return list
}

// extra is what a complete list does not name.
func (p *planner) extra(ctx context.Context, s *seen) error {
	c := change(Delete, s, s.kind.Delete)
	if !p.o.Prune {
		p.stays(s)
		p.plan.Extra = append(p.plan.Extra, fmt.Sprintf("%s %s", s.kind.One, strings.Join(c.Name, " ")))
		return nil
	}
	err := p.sure(ctx, s)
	if err == nil {
		p.condition(&c, s)
		c.Goes, err = p.counts(ctx, s)
	}
	var has Value
	if err == nil && s.kind.Apart != nil {
		has, _, err = p.apart(ctx, s)
	}
	if notThere(err) {
		return nil // somebody has deleted it since it was listed
	}
	if err != nil {
		return err
	}
	if s.kind.Member == projectsMember {
		p.pruned[s.name] = true
	}
	if s.kind.Apart != nil {
		c.Goes[s.kind.Apart.Field] = int64(len(s.kind.namesIn(has)))
		p.claims(s, place{}, c.Operation, has, nil)
	}
	p.deletes = append(p.deletes, c)
	return nil
}

// condition has a change be about the object as it was compared.
func (p *planner) condition(c *Change, s *seen) {
	c.Before = s.fields
	c.IfMatch = s.tag
}

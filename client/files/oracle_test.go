package files_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
)

// The oracle says what a plan has to be, by the rules of docs/files.md and nothing else: it compares two trees, object by object.

// oracle has what is expected of files about a world.
type oracle struct {
	prune bool
	// lines are the changes, and after is the world that they make.
	lines []string
	after *node
	// touched are the paths of the objects that a change is about.
	touched map[string]bool
	extra   int
	// gone are the projects that are deleted, and against is set where files want a bucket that goes with one.
	gone    map[string]bool
	against bool
}

// expect tells what files want of a world.
func expect(world, files *node, prune bool) *oracle {
	o := &oracle{prune: prune, after: cloned(world), touched: map[string]bool{}, gone: map[string]bool{}}
	o.within(rows(), o.after, files, nil, false)
	slices.Sort(o.lines)
	return o
}

func cloned(n *node) *node {
	c := *n
	c.fields, c.below = maps.Clone(n.fields), nil
	for _, b := range n.below {
		c.below = append(c.below, cloned(b))
	}
	return &c
}

// fold is a name as objects of a kind are told apart by it.
func (r *row) fold(name string) string {
	if r.member == "managers" || r.member == "customDomains" {
		return strings.ToLower(name)
	}
	return name
}

func (o *oracle) within(kinds []*row, here, wanted *node, names []string, made bool) {
	for _, k := range kinds {
		complete := has(wanted.complete, k.member)
		var kept []*node
		for _, f := range wanted.list(k.member) {
			i := slices.IndexFunc(here.below, func(w *node) bool { return w.row.member == k.member && meant(k, w, f) })
			var there *node
			for project := range o.gone {
				o.against = o.against || k.member == "keyBuckets" && comesWith(f) && strings.HasPrefix(f.name, project+"-")
			}
			if i >= 0 {
				there = here.below[i]
				if k.member == "meteringBuckets" {
					there.name = f.name // which is for the files alone
				}
				o.changed(k, there, f, append(slices.Clone(names), there.name))
			} else {
				there = o.made(k, here, f, names, made)
			}
			kept = append(kept, there)
			o.within(k.below, there, f, append(slices.Clone(names), there.name), i < 0)
		}
		for _, w := range here.list(k.member) {
			if !complete || slices.Contains(kept, w) || k.member == "keyBuckets" && comesWith(w) {
				continue
			}
			if o.extra++; !o.prune {
				continue
			}
			if k.member == "meteringBuckets" {
				w.name = w.id // which no file has a name for
			}
			o.lines = append(o.lines, o.deletes(k, w, append(slices.Clone(names), w.name)))
			here.below = slices.DeleteFunc(here.below, func(b *node) bool { return b == w })
			if k.member == "projects" {
				o.gone[w.name] = true
				o.after.below = slices.DeleteFunc(o.after.below, func(b *node) bool {
					return b.row.member == "keyBuckets" && comesWith(b) && strings.HasPrefix(b.name, w.name+"-")
				})
			}
		}
	}
}

// comesWith reports whether a bucket is one of a project's own.
func comesWith(b *node) bool {
	return strings.HasSuffix(b.name, "-production") || strings.HasSuffix(b.name, "-preview") || strings.HasSuffix(b.name, "-working-copy")
}

// meant reports whether a file's object is one that is there. Of the plans of a metering bucket, the first is no other one's (dice).
func meant(k *row, there, f *node) bool {
	if k.member != "meteringBuckets" {
		return k.fold(there.name) == k.fold(f.name)
	}
	return first(there) == first(f)
}

// first is the plan of a metering bucket that no other one has.
func first(bucket *node) string { return slices.MinFunc(bucket.list("plans"), byName).name }

func (o *oracle) changed(k *row, there, f *node, names []string) {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		was, is := canon(there.fields[name]), canon(resolved(f.fields[name]))
		if was == is || secret(f, name) || name == "certificate" {
			continue
		}
		fields = append(fields, name+": "+was+" → "+is)
		if there.fields[name] = resolved(f.fields[name]); nothing(there.fields[name]) {
			delete(there.fields, name)
		}
	}
	if len(fields) > 0 {
		o.touched[strings.Join(names, "/")] = true
		o.lines = append(o.lines, "change "+k.one+" "+strings.Join(names, " ")+" "+strings.Join(fields, ", "))
	}
}

func (o *oracle) made(k *row, here, f *node, names []string, parentMade bool) *node {
	n := &node{row: k, name: f.name, fields: map[string]any{}}
	here.below = append(here.below, n)
	names = append(slices.Clone(names), f.name)
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		switch v := resolved(f.fields[name]); {
		case v == nil:
		case secret(f, name):
			fields = append(fields, name+": a secret")
		case name == "services":
			if !nothing(v) {
				o.lines = append(o.lines, "change "+k.one+" "+strings.Join(names, " ")+" services: none → "+canon(v))
				n.fields[name] = v
			}
		default:
			fields = append(fields, name+": "+canon(v))
			if !nothing(v) && name != "certificate" {
				n.fields[name] = v
			}
		}
	}
	var managers []any
	for _, m := range sorted(f.list("managers")) {
		if m.fields["sub"] == nil {
			managers = append(managers, m.name)
		} else {
			managers = append(managers, map[string]any{"email": m.name, "sub": resolved(m.fields["sub"])})
		}
	}
	if len(managers) > 0 {
		fields = append(fields, "managers: "+canon(managers))
	}
	slices.Sort(fields)
	switch {
	case k.member == "managers" && parentMade: // with its consumer
	case k.member == "branches":
	default:
		o.lines = append(o.lines, strings.TrimSpace("create "+k.one+" "+strings.Join(names, " ")+" "+strings.Join(fields, ", ")))
	}
	if k.member == "projects" {
		bucket := rows()[1]
		for suffix, kind := range map[string]string{"production": "PRODUCTION", "preview": "PREVIEW", "working-copy": "WORKING_COPY"} {
			o.after.below = append(o.after.below, &node{row: bucket, name: f.name + "-" + suffix, fields: map[string]any{
				"isRetrievable": true, "tags": map[string]any{"account": "acme", "environmentType": kind, "project": f.name},
			}})
		}
		n.below = append(n.below, &node{row: k.below[1], name: "main"})
	}
	if k.member == "environments" {
		here.below = append(here.below, &node{row: rows()[0].below[1], name: f.name})
	}
	if k.member == "keyBuckets" && n.fields["isRetrievable"] == nil {
		n.fields["isRetrievable"] = true
	}
	return n
}

func sorted(list []*node) []*node {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *node) int { return strings.Compare(a.row.fold(a.name), b.row.fold(b.name)) })
	return list
}

// deletes is the line of a deletion, with what goes along.
func (o *oracle) deletes(k *row, w *node, names []string) string {
	counts := []string{}
	if k.member == "projects" {
		consumers := 0
		for _, b := range o.after.list("keyBuckets") {
			if comesWith(b) && strings.HasPrefix(b.name, w.name+"-") {
				consumers += len(b.list("consumers"))
			}
		}
		counts = append(counts, fmt.Sprintf("consumers: %d", consumers))
	}
	for _, what := range k.goes {
		counts = append(counts, fmt.Sprintf("%s: %d", what, len(w.list(what)))) // of deployments there are none
	}
	slices.Sort(counts)
	if k.member == "tunnels" {
		services, _ := w.fields["services"].([]any)
		counts = append(counts, fmt.Sprintf("services: %d", len(services)))
	}
	return strings.TrimSpace("delete " + k.one + " " + strings.Join(names, " ") + " " + strings.Join(counts, ", "))
}

// secret reports whether a field is one.
func secret(f *node, name string) bool {
	return f.row.member == "variables" && name == "value" && f.fields["isSecret"] == true
}

// resolved is a value, from the environment where it is to come from there.
func resolved(v any) any {
	if from, is := v.(reference); is {
		return getenv(string(from))
	}
	return v
}

// reference is the name of a variable of the environment.
type reference string

// MarshalJSON implements json.Marshaler.
func (r reference) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"fromEnv": string(r)})
}

// canon is a value as it is compared: what is empty is nothing, and a number is what it counts.
func canon(v any) string {
	if nothing(v) {
		return "none"
	}
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if r, ok := new(big.Rat).SetString(string(v)); ok {
				return "number " + r.RatString()
			}
		case map[string]any:
			c := map[string]any{}
			for name, value := range v {
				c[name] = plain(value)
			}
			return c
		case []any:
			c := []any{}
			for _, value := range v {
				c = append(c, plain(value))
			}
			return c
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				return at.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
			}
		}
		return v
	}
	text, _ := json.Marshal(plain(v))
	return string(text)
}

// told writes a world as it is compared with another, with all that is in it but times and ids; raw of what is at a path stands for itself.
func (n *node) told(into map[string]string, path []string) map[string]string {
	for _, b := range n.below {
		at := append(slices.Clone(path), b.row.fold(b.name))
		if b.row.member == "meteringBuckets" {
			at[len(at)-1] = "of " + first(b)
		}
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(b.fields)) {
			fields = append(fields, name+": "+canon(b.fields[name]))
		}
		into[b.row.member+" "+strings.Join(at, "/")] = strings.Join(fields, ", ")
		b.told(into, at)
	}
	return into
}

// bytesOf are what the API tells of each object of a world, byte for byte.
func (n *node) bytesOf(into map[string]string, path []string) map[string]string {
	for _, b := range n.below {
		at := append(slices.Clone(path), b.name)
		into[b.row.member+" "+b.id+" "+strings.Join(at, "/")] = b.raw
		b.bytesOf(into, at)
	}
	return into
}

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

// The oracle predicts a plan. It is written only from the rules of docs/files.md: it compares two trees, object by
// object.

// oracle computes the expected result of applying files to an account.
type oracle struct {
	prune bool
	// lines describe the expected changes, and after is the account after these changes.
	lines []string
	after *node
	// touched are the paths of the objects that change. unlisted is the number of objects that are missing in complete
	// lists.
	touched  map[string]bool
	unlisted int
	// deleted are the projects that are deleted. conflicting says that files have a bucket that is deleted with its
	// project.
	deleted     map[string]bool
	conflicting bool
}

// expect returns the expected result of applying files to an account.
func expect(current, desired *node, prune bool) *oracle {
	o := &oracle{prune: prune, after: clone(current), touched: map[string]bool{}, deleted: map[string]bool{}}
	o.compare(kindSpecs(), o.after, desired, nil, false)
	slices.Sort(o.lines)
	return o
}

func clone(n *node) *node {
	c := *n
	c.fields, c.children = maps.Clone(n.fields), nil
	for _, child := range n.children {
		c.children = append(c.children, clone(child))
	}
	return &c
}

// fold returns a name in the form that is used to compare names of this kind.
func (s *kindSpec) fold(name string) string {
	if s.member == "managers" || s.member == "customDomains" {
		return strings.ToLower(name)
	}
	return name
}

// compare adds the lines for the children of an object, and makes the changes in current. names are the names of the
// object and its ancestors. isNew says that the plan creates the object.
func (o *oracle) compare(kinds []*kindSpec, current, desired *node, names []string, isNew bool) {
	for _, k := range kinds {
		complete := contains(desired.complete, k.member)
		var retained []*node
		for _, f := range desired.list(k.member) {
			i := slices.IndexFunc(current.children, func(child *node) bool {
				return child.kind.member == k.member && isSameObject(k, child, f)
			})
			var existing *node
			for project := range o.deleted {
				o.conflicting = o.conflicting || k.member == "keyBuckets" && isProjectBucket(f) &&
					strings.HasPrefix(f.name, project+"-")
			}
			if i >= 0 {
				existing = current.children[i]
				if k.member == "meteringBuckets" {
					existing.name = f.name // the account has no name for a metering bucket
				}
				o.update(k, existing, f, append(slices.Clone(names), existing.name))
			} else {
				existing = o.create(k, current, f, names, isNew)
			}
			retained = append(retained, existing)
			o.compare(k.children, existing, f, append(slices.Clone(names), existing.name), i < 0)
		}
		for _, existing := range current.list(k.member) {
			if !complete || slices.Contains(retained, existing) || k.member == "keyBuckets" && isProjectBucket(existing) {
				continue
			}
			if o.unlisted++; !o.prune {
				continue
			}
			if k.member == "meteringBuckets" {
				existing.name = existing.id // a metering bucket without a name in files
			}
			o.lines = append(o.lines, o.deletionLine(k, existing, append(slices.Clone(names), existing.name)))
			current.children = slices.DeleteFunc(current.children, func(child *node) bool { return child == existing })
			if k.member == "projects" {
				o.deleted[existing.name] = true
				o.after.children = slices.DeleteFunc(o.after.children, func(b *node) bool {
					return b.kind.member == "keyBuckets" && isProjectBucket(b) && strings.HasPrefix(b.name, existing.name+"-")
				})
			}
		}
	}
}

// isProjectBucket reports whether a bucket is one that is created with a project.
func isProjectBucket(b *node) bool {
	return strings.HasSuffix(b.name, "-production") || strings.HasSuffix(b.name, "-preview") ||
		strings.HasSuffix(b.name, "-working-copy")
}

// isSameObject reports whether an object in files is an existing object. Metering buckets are identified by their first
// plan, which is unique (generator.populate).
func isSameObject(k *kindSpec, existing, f *node) bool {
	if k.member != "meteringBuckets" {
		return k.fold(existing.name) == k.fold(f.name)
	}
	return firstPlan(existing) == firstPlan(f)
}

// firstPlan returns the name of the bucket's first plan, which no other bucket has.
func firstPlan(bucket *node) string { return slices.MinFunc(bucket.list("plans"), byName).name }

func (o *oracle) update(k *kindSpec, existing, f *node, names []string) {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		from, to := canonicalText(existing.fields[name]), canonicalText(resolveValue(f.fields[name]))
		if from == to || isSecretField(f, name) || name == "certificate" {
			continue
		}
		fields = append(fields, name+": "+from+" → "+to)
		if existing.fields[name] = resolveValue(f.fields[name]); isEmptyValue(existing.fields[name]) {
			delete(existing.fields, name)
		}
	}
	if len(fields) > 0 {
		o.touched[strings.Join(names, "/")] = true
		o.lines = append(o.lines, "change "+k.singular+" "+strings.Join(names, " ")+" "+strings.Join(fields, ", "))
	}
}

func (o *oracle) create(k *kindSpec, parent, f *node, names []string, parentIsNew bool) *node {
	n := &node{kind: k, name: f.name, fields: map[string]any{}}
	parent.children = append(parent.children, n)
	names = append(slices.Clone(names), f.name)
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		switch v := resolveValue(f.fields[name]); {
		case v == nil:
		case isSecretField(f, name):
			fields = append(fields, name+": a secret")
		case name == "services":
			if !isEmptyValue(v) {
				o.lines = append(o.lines, "change "+k.singular+" "+strings.Join(names, " ")+" services: none → "+canonicalText(v))
				n.fields[name] = v
			}
		default:
			fields = append(fields, name+": "+canonicalText(v))
			if !isEmptyValue(v) && name != "certificate" {
				n.fields[name] = v
			}
		}
	}
	var managers []any
	for _, m := range sorted(f.list("managers")) {
		if m.fields["sub"] == nil {
			managers = append(managers, m.name)
		} else {
			managers = append(managers, map[string]any{"email": m.name, "sub": resolveValue(m.fields["sub"])})
		}
	}
	if len(managers) > 0 {
		fields = append(fields, "managers: "+canonicalText(managers))
	}
	slices.Sort(fields)
	switch {
	case k.member == "managers" && parentIsNew: // the manager is created with its consumer
	case k.member == "branches":
	default:
		o.lines = append(o.lines,
			strings.TrimSpace("create "+k.singular+" "+strings.Join(names, " ")+" "+strings.Join(fields, ", ")))
	}
	if k.member == "projects" {
		bucket := kindSpecs()[1]
		for suffix, envType := range map[string]string{
			"production": "PRODUCTION", "preview": "PREVIEW",
			"working-copy": "WORKING_COPY",
		} {
			o.after.children = append(o.after.children, &node{kind: bucket, name: f.name + "-" + suffix, fields: map[string]any{
				"isRetrievable": true, "tags": map[string]any{"account": "acme", "environmentType": envType, "project": f.name},
			}})
		}
		n.children = append(n.children, &node{kind: k.children[1], name: "main"})
	}
	if k.member == "environments" {
		parent.children = append(parent.children, &node{kind: kindSpecs()[0].children[1], name: f.name})
	}
	if k.member == "keyBuckets" && n.fields["isRetrievable"] == nil {
		n.fields["isRetrievable"] = true
	}
	return n
}

func sorted(list []*node) []*node {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *node) int { return strings.Compare(a.kind.fold(a.name), b.kind.fold(b.name)) })
	return list
}

// deletionLine returns the line for a deletion, with the numbers of objects that are deleted together with the object.
func (o *oracle) deletionLine(k *kindSpec, existing *node, names []string) string {
	counts := []string{}
	if k.member == "projects" {
		consumers := 0
		for _, b := range o.after.list("keyBuckets") {
			if isProjectBucket(b) && strings.HasPrefix(b.name, existing.name+"-") {
				consumers += len(b.list("consumers"))
			}
		}
		counts = append(counts, fmt.Sprintf("consumers: %d", consumers))
	}
	for _, kind := range k.dependents {
		counts = append(counts, fmt.Sprintf("%s: %d", kind, len(existing.list(kind)))) // 0 for deployments
	}
	slices.Sort(counts)
	if k.member == "tunnels" {
		services, _ := existing.fields["services"].([]any)
		counts = append(counts, fmt.Sprintf("services: %d", len(services)))
	}
	return strings.TrimSpace("delete " + k.singular + " " + strings.Join(names, " ") + " " + strings.Join(counts, ", "))
}

// isSecretField reports whether a field is a secret.
func isSecretField(f *node, name string) bool {
	return f.kind.member == "variables" && name == "value" && f.fields["isSecret"] == true
}

// resolveValue returns a value, or the environment variable's value if v is a reference.
func resolveValue(v any) any {
	if ref, ok := v.(envReference); ok {
		return testGetenv(string(ref))
	}
	return v
}

// envReference is a Reference to an environment variable, by its name.
type envReference string

// MarshalJSON implements json.Marshaler.
func (r envReference) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"fromEnv": string(r)})
}

// canonicalText returns a text that is the same for equal values: empty values are "none", numbers are compared by
// their numeric value, and times by their instant.
func canonicalText(v any) string {
	if isEmptyValue(v) {
		return "none"
	}
	var normalize func(v any) any
	normalize = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if r, ok := new(big.Rat).SetString(string(v)); ok {
				return "number " + r.RatString()
			}
		case map[string]any:
			c := map[string]any{}
			for name, value := range v {
				c[name] = normalize(value)
			}
			return c
		case []any:
			c := []any{}
			for _, value := range v {
				c = append(c, normalize(value))
			}
			return c
		case string:
			if instant, err := time.Parse(time.RFC3339, v); err == nil {
				return instant.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
			}
		}
		return v
	}
	text, _ := json.Marshal(normalize(v))
	return string(text)
}

// flatten adds to out a text with the fields of each object of an account. The texts of two accounts with the same
// objects are equal.
func (n *node) flatten(out map[string]string, path []string) map[string]string {
	for _, child := range n.children {
		location := append(slices.Clone(path), child.kind.fold(child.name))
		if child.kind.member == "meteringBuckets" {
			location[len(location)-1] = "of " + firstPlan(child)
		}
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(child.fields)) {
			fields = append(fields, name+": "+canonicalText(child.fields[name]))
		}
		out[child.kind.member+" "+strings.Join(location, "/")] = strings.Join(fields, ", ")
		child.flatten(out, location)
	}
	return out
}

// rawByLocation adds node.raw of each object of an account to out.
func (n *node) rawByLocation(out map[string]string, path []string) map[string]string {
	for _, child := range n.children {
		location := append(slices.Clone(path), child.name)
		out[child.kind.member+" "+child.id+" "+strings.Join(location, "/")] = child.raw
		child.rawByLocation(out, location)
	}
	return out
}

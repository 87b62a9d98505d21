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

	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Options are the options of Compare.
type Options struct {
	// Prune plans the deletion of objects that are missing in complete lists.
	Prune bool
	// SetSecrets plans to set the secrets of existing objects again. Secrets cannot be compared, so without SetSecrets
	// they are not changed.
	SetSecrets bool
	// Getenv returns the value of an environment variable. Now returns the current time.
	Getenv func(string) string
	Now    func() time.Time
	// Installation is the address of the installation.
	Installation string
}

// These are the actions of a change.
const (
	Create = "create"
	Update = "change"
	Delete = "delete"
)

// Plan lists the changes that make an account match the files, in order of execution.
type Plan struct {
	Format       int       `json:"format"`
	Version      string    `json:"version"`
	Installation string    `json:"installation"`
	Account      string    `json:"account"`
	CreatedAt    time.Time `json:"made"`
	Changes      []Change  `json:"changes"`
	// Objects is the number of objects in the files. Unlisted are the objects that are missing in complete lists, but
	// are not deleted because Prune is not set. NotCompared is the number of secrets of existing objects that are neither
	// compared nor set.
	Objects     int      `json:"objects"`
	Unlisted    []string `json:"extra,omitempty"`
	NotCompared int      `json:"notCompared,omitempty"`
	// Digest is a hash of all other members.
	Digest string `json:"digest"`
}

// Change is one request.
type Change struct {
	Action string   `json:"do"`
	Kind   string   `json:"kind"`
	Name   []string `json:"name"`
	// Key identifies the object within the plan. ID is its ID in paths, and ObjectID its ID in the audit log. Both IDs
	// are "" for an object that the change creates, and while they are unknown.
	Key      string        `json:"key"`
	ID       string        `json:"id,omitempty"`
	ObjectID string        `json:"objectId,omitempty"`
	Fields   []FieldChange `json:"fields,omitempty"`
	// Dependents has the numbers of objects that are deleted with this object, by the names of these objects in messages.
	// -1 means that a number is unknown, for example because the key has no permission to list the objects.
	Dependents map[string]int64 `json:"goes,omitempty"`

	Operation string           `json:"operation"`
	Arguments map[string]Value `json:"arguments"`
	// Secrets are the arguments whose values Apply reads from references. IDArguments are the arguments for IDs of
	// objects that earlier changes create.
	Secrets     map[string]Reference `json:"secrets,omitempty"`
	IDArguments []IDArgument         `json:"needs,omitempty"`
	// IfMatch is the condition of the request: an ETag, or * for an object that an earlier change creates, directly
	// or with its project. "" means no condition.
	IfMatch string `json:"ifMatch,omitempty"`
	// Before are the fields of the object when the plan was made, or only the field Kind.SeparateField if the change
	// writes that field. ConflictError compares them with the current fields.
	Before map[string]Value `json:"before,omitempty"`
	// IdempotencyKey is the key of a create or update request, "" for a deletion. A repeated request has the same key.
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// FieldChange is the value of a field before and after the change. Both values are nil for a secret.
type FieldChange struct {
	Name   string `json:"name"`
	Before Value  `json:"before,omitempty"`
	After  Value  `json:"after,omitempty"`
	Secret bool   `json:"secret,omitempty"`
}

// IDArgument is an argument for the ID of an object that an earlier change creates, or for a list of IDs. Keys has the
// Change.Key of each object, or "=" and the ID if the object already exists.
type IDArgument struct {
	Argument string   `json:"argument"`
	Keys     []string `json:"of"`
	IsList   bool     `json:"list,omitempty"`
}

// planFormat is the version of the plan format. It increases when older releases would apply a plan differently.
const planFormat = 2

// planner holds the state of one call of Compare.
type planner struct {
	*accountClient
	files   *Files
	options Options
	plan    *Plan
	// deletions are the changes that delete objects. They come last in the plan, in reverse order. So a subscription is
	// deleted before its metering plan.
	deletions []Change
	problems  []project.Problem
	// planIDs are the IDs of metering plans by their remoteObject.key, for subscriptions. The ID of a metering plan that
	// does not exist yet is "". createdProjects and deletedProjects are the names of the projects that Compare plans to
	// create and to delete.
	planIDs                          map[string]string
	createdProjects, deletedProjects map[string]bool
	// nameClaims has the unique names of the objects whose SeparateField field is compared or deleted. unchanged are the
	// other existing objects that may have such names.
	nameClaims []claim
	unchanged  []*remoteObject
}

// Compare plans the changes that make an account match the files. It changes nothing. It reads the lists, and the
// first object of each kind that changes. It reads further objects of the kind only if their ETags cannot be computed
// (accountClient.ensureCurrent). If the files need changes that are impossible, its error is an InvalidError with all
// these problems.
func Compare(ctx context.Context, api API, f *Files, o Options) (*Plan, error) {
	account, err := api.Account(ctx)
	if err != nil {
		return nil, err
	}
	p := &planner{
		accountClient: &accountClient{
			api: api, account: account, fieldsByKind: f.fields, etagsComputable: map[*Kind]bool{},
		},
		files: f, options: o, planIDs: map[string]string{},
		createdProjects: map[string]bool{}, deletedProjects: map[string]bool{},
		plan: &Plan{
			Format: planFormat, Version: release.Version(), Installation: o.Installation, Account: account,
			CreatedAt: o.Now().UTC().Truncate(time.Millisecond), Objects: f.Objects, Changes: []Change{},
		},
	}
	if err := p.compareChildren(ctx, f.kinds, f.rootObject, &remoteObject{}); err != nil {
		return nil, err
	}
	slices.Reverse(p.deletions)
	p.plan.Changes = append(p.plan.Changes, p.deletions...)
	if err := p.orderByClaims(ctx); err != nil {
		return nil, err
	}
	if err := f.invalidError(p.problems); err != nil {
		return nil, err
	}
	for i := range p.plan.Changes {
		if c := &p.plan.Changes[i]; c.Action != Delete {
			c.IdempotencyKey = uuid.NewString()
		}
	}
	slices.Sort(p.plan.Unlisted)
	p.plan.Digest = p.plan.digest()
	return p.plan, nil
}

func (p *planner) addProblem(at position, format string, args ...any) {
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, at.newProblem(format, args...))
	}
}

// compareChildren compares the children of an object, for each list that the files have or declare complete.
func (p *planner) compareChildren(ctx context.Context, kinds []*Kind, desired *object, remote *remoteObject) error {
	for _, k := range kinds {
		_, complete := desired.complete[k.Member]
		if _, listed := desired.children[k.Member]; !listed && !complete {
			continue
		}
		existing, err := p.listExisting(ctx, k, desired, remote)
		if err != nil {
			return err
		}
		for _, o := range desired.list(k.Member) {
			name := k.normalize(o.name)
			remoteChild, err := p.compareObject(ctx, o, remote, existing[name])
			if err != nil {
				return err
			}
			delete(existing, name)
			if remoteChild == nil {
				continue
			}
			if err := p.compareChildren(ctx, k.Children, o, remoteChild); err != nil {
				return err
			}
		}
		if !complete {
			p.addUnchanged(slices.Collect(maps.Values(existing))...)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(existing)) {
			if owner, _ := keyBucketOwner(name); k.Member == keyBucketsMember && owner != "" {
				continue // exports omit unchanged buckets of projects: a missing one must not be deleted
			}
			if err := p.handleUnlisted(ctx, existing[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// listExisting returns the existing objects of a kind within remote, by normalized name.
func (p *planner) listExisting(
	ctx context.Context, k *Kind, desired *object, remote *remoteObject,
) (map[string]*remoteObject, error) {
	switch {
	case k.List == "":
		existing := map[string]*remoteObject{}
		for _, o := range desired.list(k.Member) { // these objects are taken to exist always
			existing[k.normalize(o.name)] = &remoteObject{kind: k, name: o.name, id: o.name, parent: remote, isNew: remote.isNew}
		}
		return existing, nil
	case remote.isNew:
		return map[string]*remoteObject{}, nil
	case k.Embedded != nil:
		return p.embeddedObjects(k, remote)
	}
	include := map[string]string{}
	for _, childKind := range k.Children {
		for _, o := range desired.children[k.Member] {
			_, listed := o.children[childKind.Member]
			if _, complete := o.complete[childKind.Member]; listed || complete {
				maps.Copy(include, childKind.Embedded)
				break
			}
		}
	}
	existing, err := p.list(ctx, k, remote, include)
	if err != nil {
		return nil, deletedMeanwhile(remote, err)
	}
	switch k.Member {
	case meteringBucketsMember:
		return p.matchByPlans(ctx, k, desired, existing)
	case keyBucketsMember:
		p.addProjectBuckets(desired.children[k.Member], existing, k, remote)
	}
	return existing, nil
}

// compareObject compares an object, and plans to create or change it. It returns the existing object, or the object
// that the plan creates. It returns nil if a problem prevents the creation, or if o is a key bucket of a project that
// the plan deletes.
func (p *planner) compareObject(ctx context.Context, o *object, parent, existing *remoteObject) (*remoteObject, error) {
	if existing != nil {
		if owner, _ := keyBucketOwner(o.name); o.kind.Member == keyBucketsMember && p.deletedProjects[owner] {
			p.addProblem(o.at, "The %s %s goes with the project %s, which these files do not name and --prune deletes: name "+
				"that too, or leave this out.", o.kind.Singular, o.name, owner)
			return nil, nil
		}
		if o.kind.Member == "plans" {
			p.planIDs[existing.key()] = existing.id
		}
		return existing, p.update(ctx, o, existing)
	}
	created := &remoteObject{kind: o.kind, name: o.name, parent: parent, isNew: true}
	if o.kind.ID == o.kind.Key {
		created.id = o.name
	}
	if o.kind.Member == "plans" {
		p.planIDs[created.key()] = ""
	}
	if o.kind.Member == projectsMember {
		p.createdProjects[o.name] = true
	}
	if o.kind.ParentMember != "" && parent.isNew && !parent.withProject {
		return created, nil // the object is created with its parent
	}
	if !p.create(o, created) {
		return nil, nil
	}
	return created, nil
}

// newChange returns a change of an object. The caller adds the fields.
func newChange(action string, remote *remoteObject, operation string) Change {
	c := Change{
		Action: action, Kind: remote.kind.Singular, Key: remote.key(), ID: remote.id, ObjectID: remote.objectID,
		Operation: operation, Arguments: map[string]Value{},
	}
	for ancestor := remote; ancestor.kind != nil; ancestor = ancestor.parent {
		c.Name = append([]string{ancestor.name}, c.Name...)
	}
	arguments, missing := remote.arguments()
	if action == Create {
		c.ID = ""
		arguments, missing = remote.parent.arguments()
	}
	for name, value := range arguments {
		c.Arguments[name] = mustMarshal(value)
	}
	c.IDArguments = missing
	return c
}

// create plans the creation of an object. It returns false if a problem prevents the creation.
func (p *planner) create(o *object, created *remoteObject) bool {
	k, f := o.kind, p.fieldsByKind[o.kind]
	if k.Create == "" {
		p.addProblem(o.at, "There is no %s %s, and files make none: make it first, or leave it out.", k.Singular, o.name)
		return false
	}
	c, problemCount := newChange(Create, created, k.Create), len(p.problems)
	if f.keySchema != nil {
		c.Arguments[k.Key] = mustMarshal(o.name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.byName)) {
		field := f.byName[name]
		fv, present := o.fields[name]
		switch {
		case field.Required && (!present || fv.ref == nil && string(fv.value) == "null"):
			p.addProblem(o.at, "There is no %s %s yet, and it is made with %s alone: add that.", k.Singular, o.name, name)
		case !present || fv.ref == nil && string(fv.value) == "null" ||
			k.SeparateField != nil && name == k.SeparateField.Field:
		case !field.OnCreate:
			p.addProblem(fv.at, "%s cannot be given to a %s that is made: leave it out at first.", name, k.Singular)
		default:
			p.setField(&c, o, name, nil)
		}
	}
	p.setSiblingIDs(&c, o, created.parent)
	for _, childKind := range k.Children {
		if childKind.ParentMember != "" && len(o.children[childKind.Member]) > 0 {
			c.Arguments[childKind.ParentMember] = p.embeddedList(o.list(childKind.Member))
			c.Fields = append(c.Fields, FieldChange{Name: childKind.Member, After: c.Arguments[childKind.ParentMember]})
		}
	}
	if len(p.problems) > problemCount {
		return false
	}
	p.plan.Changes = append(p.plan.Changes, c)
	p.writeSeparate(o, created, nil, "*")
	return true
}

// embeddedList returns the request's list of the objects that are created with their parent. An object without fields
// is only a name.
func (p *planner) embeddedList(list []*object) Value {
	var out []any
	for _, o := range list {
		if len(o.fields) == 0 {
			out = append(out, o.name)
			continue
		}
		members := map[string]Value{o.kind.Key: mustMarshal(o.name)}
		for name, fv := range o.fields {
			if value, ok := p.plainValue(fv); ok {
				members[name] = value
			}
		}
		out = append(out, members)
	}
	return mustMarshal(out)
}

// setField adds the value of a field to a change. It reads a secret only to check that the secret can be read: the plan
// contains its reference and not the secret.
func (p *planner) setField(c *Change, o *object, name string, before Value) {
	fv := o.fields[name]
	if existing := (&remoteObject{kind: o.kind, fields: c.Before}); !p.isSecret(o, existing, name) {
		value, ok := p.plainValue(fv)
		if !ok {
			return
		}
		c.Arguments[name] = value
		c.Fields = append(c.Fields, FieldChange{Name: name, Before: before, After: value})
		return
	}
	if fv.ref == nil {
		p.addProblem(fv.at, "%s is a secret, which stands in no file: give it as {fromEnv: NAME} or {fromFile: PATH}.", name)
		return
	}
	if _, err := fv.ref.Value(p.options.Getenv); err != nil {
		p.addProblem(fv.at, "%s: %v.", name, err)
		return
	}
	if c.Secrets == nil {
		c.Secrets = map[string]Reference{}
	}
	c.Secrets[name] = *fv.ref
	c.Fields = append(c.Fields, FieldChange{Name: name, Secret: true})
}

// plainValue returns the value of a field that is not a secret. If the file has a reference, plainValue reads the
// value. If this fails, plainValue reports a problem and returns false.
func (p *planner) plainValue(fv fieldValue) (Value, bool) {
	if fv.ref == nil {
		return fv.value, true
	}
	text, err := fv.ref.Value(p.options.Getenv)
	if err != nil {
		p.addProblem(fv.at, "%v.", err)
		return nil, false
	}
	return mustMarshal(text), true
}

// setSiblingIDs sets the argument Kind.SiblingIDs of a change that creates an object. The IDs of siblings that earlier
// changes create are set later, by Apply.
func (p *planner) setSiblingIDs(c *Change, o *object, parent *remoteObject) {
	spec := o.kind.SiblingIDs
	if spec == nil || c.Action != Create {
		return
	}
	fv := o.fields[spec.Field]
	idArgument, sibling := IDArgument{Argument: spec.Argument, IsList: true}, o.kind.parent.child(spec.Member)
	var ids []string
	for _, name := range stringList(fv.value) {
		key := (&remoteObject{kind: sibling, name: name, parent: parent}).key()
		id, ok := p.planIDs[key]
		if !ok {
			p.addProblem(cmp.Or(fv.at, o.at), "There is no %s %s in these files: name it among the %s.", sibling.Singular, name,
				spec.Member)
			continue
		}
		ids, idArgument.Keys = append(ids, id), append(idArgument.Keys, key)
	}
	if slices.Contains(ids, "") {
		for i, id := range ids {
			if id != "" {
				idArgument.Keys[i] = "=" + id
			}
		}
		c.IDArguments = append(c.IDArguments, idArgument)
		return
	}
	c.Arguments[spec.Argument] = mustMarshal(ids)
}

func stringList(v Value) (list []string) {
	all, _ := decode(v).([]any)
	for _, entry := range all {
		if text, ok := entry.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// handleUnlisted handles an object that is missing in a complete list. It plans the deletion, or adds the object to
// Plan.Unlisted.
func (p *planner) handleUnlisted(ctx context.Context, remote *remoteObject) error {
	c := newChange(Delete, remote, remote.kind.Delete)
	if !p.options.Prune {
		p.addUnchanged(remote)
		p.plan.Unlisted = append(p.plan.Unlisted, fmt.Sprintf("%s %s", remote.kind.Singular, strings.Join(c.Name, " ")))
		return nil
	}
	err := p.ensureCurrent(ctx, remote)
	if err == nil {
		p.setCondition(&c, remote)
		c.Dependents, err = p.countDependents(ctx, remote)
	}
	var value Value
	if err == nil && remote.kind.SeparateField != nil {
		value, _, err = p.readSeparate(ctx, remote)
	}
	if isNotFound(err) {
		return nil // the object was deleted after the list was read
	}
	if err != nil {
		return err
	}
	if remote.kind.Member == projectsMember {
		p.deletedProjects[remote.name] = true
	}
	if remote.kind.SeparateField != nil {
		c.Dependents[remote.kind.SeparateField.Field] = int64(len(remote.kind.uniqueNames(value)))
		p.addClaim(remote, position{}, c.Operation, value, nil)
	}
	p.deletions = append(p.deletions, c)
	return nil
}

// setCondition makes a change conditional on the state of the object that was compared.
func (p *planner) setCondition(c *Change, remote *remoteObject) {
	c.Before = remote.fields
	c.IfMatch = remote.etag
}

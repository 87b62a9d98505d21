// Package variables is the service of environment variables: named values of a
// project's branch that a build puts into the project's configuration
// (specification 2 and 4.7; contract 1.4 and 2.7).
//
// All values are sealed, whether or not they are secrets. A secret is written
// and never shown again: only builds open it, through Resolve. A change takes
// effect with the branch's next build.
//
// What it is not: it does not know where a build may use a variable (package
// project does), and it speaks no HTTP.
//
// Read this file first, then table.go and name.go.
package variables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// MaxVariables is how many variables a branch may have (contract 2.7).
const MaxVariables = 100

// Sealer encrypts values. context ties a sealed value to its record, so that
// it opens nowhere else.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Service does the operations. It is safe for concurrent use.
type Service struct {
	parts  installation.Parts
	sealer Sealer
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p, p.Sealer()} }

// Branch is where a variable belongs, and what the caller may see of it.
type Branch struct {
	auth.Owner
	Project, Branch string
}

func (b Branch) visible() bool {
	return b.Viewer.MaySee(b.Project, string(environment.OfBranch(b.Branch)))
}

// Variable is an environment variable as its owner sees it.
type Variable struct {
	Name   string
	Branch string
	// IsSecret never changes. Value is "" for a secret.
	IsSecret  bool
	Value     string
	CreatedOn time.Time
	UpdatedOn time.Time
}

// record is a variable in the table. Its name is the sort key.
type record struct {
	store.Rest

	Name      string    `dynamodbav:"name"`
	Branch    string    `dynamodbav:"branch"`
	IsSecret  bool      `dynamodbav:"isSecret"`
	Sealed    []byte    `dynamodbav:"sealed"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
}

// shown is the variable with the value that its owner may see.
func (r record) shown(value string) Variable {
	if r.IsSecret {
		value = ""
	}
	return Variable{
		Name: r.Name, Branch: r.Branch, IsSecret: r.IsSecret, Value: value,
		CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}
}

var (
	errNoProject  = fault.Missing("project")
	errNoVariable = fault.Missing("variable")
	errNameInUse  = fault.New(fault.Conflict, "A variable of this name exists on the branch. Update it, or choose another name.")
	errTooMany    = fault.New(fault.Invalid, "The branch has %d variables, which is the most it can have. Combine some of them, or leave one out.", MaxVariables)
)

// NewVariable is what a variable is made of.
type NewVariable struct {
	Name     string
	IsSecret bool
	// Value has at most MaxValueBytes bytes and may be empty.
	Value string
}

// Create makes a variable of a branch, which need not have been deployed yet.
// It answers Invalid faults for a bad name or value and for a branch that has
// MaxVariables, NotFound for a project that is not there or not seen, and
// Conflict for a name in use.
func (s *Service) Create(ctx context.Context, at Branch, n NewVariable) (Variable, error) {
	var wrong problems
	wrong.check("branchName", wrongBranch(at.Branch))
	wrong.check("name", wrongName(n.Name))
	wrong.check("value", wrongValue(n.Value))
	if err := wrong.Err(); err != nil {
		return Variable{}, err
	}
	if !at.visible() {
		return Variable{}, errNoProject
	}
	sealed, err := s.sealer.Seal(ctx, []byte(n.Value), sealContext(at, n.Name))
	if err != nil {
		return Variable{}, err
	}
	now := s.now()
	r := record{Name: n.Name, Branch: at.Branch, IsSecret: n.IsSecret, Sealed: sealed, CreatedOn: now, UpdatedOn: now}
	count := store.At("count")
	if err := s.parts.Table.Commit(ctx,
		store.Check(store.ProjectKey(at.AccountID, at.Project), store.ProjectStands()).Else(errNoProject),
		store.Create(at.key(n.Name), r).Else(errNameInUse),
		store.Upsert(at.countKey(), store.Add(count, 1), store.Set(store.At("branch"), at.Branch)).
			If(store.Or(store.Lacks(count), store.Less(count, MaxVariables))).Else(errTooMany),
		audit.Record(ctx, at.resource(n.Name)),
	); err != nil {
		return Variable{}, err
	}
	return r.shown(n.Value), nil
}

// Update gives a variable another value; nil leaves it as it is. It answers
// NotFound for a variable that is not there or not seen.
func (s *Service) Update(ctx context.Context, at Branch, name string, value *string) (Variable, error) {
	if value != nil {
		var wrong problems
		wrong.check("value", wrongValue(*value))
		if err := wrong.Err(); err != nil {
			return Variable{}, err
		}
	}
	var out Variable
	err := s.parts.Table.Again(ctx, func(ctx context.Context) (err error) {
		out, err = s.updateOnce(ctx, at, name, value)
		return err
	})
	return out, err
}

func (s *Service) updateOnce(ctx context.Context, at Branch, name string, value *string) (Variable, error) {
	r, err := s.find(ctx, at, name)
	if err != nil {
		return Variable{}, err
	}
	if value == nil {
		return s.show(ctx, at, r)
	}
	sealed, err := s.sealer.Seal(ctx, []byte(*value), sealContext(at, name))
	if err != nil {
		return Variable{}, err
	}
	r.UpdatedOn = s.now()
	if err := s.parts.Table.Commit(ctx,
		store.Update(at.key(name), store.Set(store.At("sealed"), sealed), store.Set(store.At("updatedOn"), r.UpdatedOn)).
			Else(errNoVariable),
		audit.Record(ctx, at.resource(name)),
	); err != nil {
		return Variable{}, err
	}
	return r.shown(*value), nil
}

// List returns the branch's variables in the order of their names. It answers
// NotFound for a project that is not there or not seen; a branch is there as soon
// as its project is.
func (s *Service) List(ctx context.Context, at Branch) ([]Variable, error) {
	if wrongBranch(at.Branch) != "" || !at.visible() {
		return nil, errNoProject
	}
	all, err := s.records(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		if err := s.parts.Table.ProjectThere(ctx, at.AccountID, at.Project, errNoProject); err != nil {
			return nil, err
		}
	}
	out := make([]Variable, len(all))
	for i, r := range all {
		if out[i], err = s.show(ctx, at, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Read returns a variable, or NotFound for one that is not there or not seen.
func (s *Service) Read(ctx context.Context, at Branch, name string) (Variable, error) {
	r, err := s.find(ctx, at, name)
	if err != nil {
		return Variable{}, err
	}
	return s.show(ctx, at, r)
}

// Delete removes a variable, whose name may be used again. Builds that have
// resolved it keep its value. It answers NotFound for one that is not there or not
// seen.
func (s *Service) Delete(ctx context.Context, at Branch, name string) error {
	if !at.mayHave(name) {
		return errNoVariable
	}
	return s.parts.Table.Commit(ctx,
		store.Delete(at.key(name)).If(store.Exists()).Else(errNoVariable),
		store.Upsert(at.countKey(), store.Add(store.At("count"), -1), store.Set(store.At("branch"), at.Branch)),
		audit.Record(ctx, at.resource(name)),
	)
}

// mayHave reports whether the branch may have a variable of the name that the
// caller sees: any other is no key to ask for.
func (b Branch) mayHave(name string) bool {
	return wrongName(name) == "" && wrongBranch(b.Branch) == "" && b.visible()
}

func (s *Service) find(ctx context.Context, at Branch, name string) (record, error) {
	if !at.mayHave(name) {
		return record{}, errNoVariable
	}
	var r record
	switch err := s.parts.Table.Get(ctx, at.key(name), &r); {
	case errors.Is(err, store.ErrNotFound):
		return record{}, errNoVariable
	case err != nil:
		return record{}, fmt.Errorf("read a variable: %w", err)
	}
	return r, nil
}

// show opens the value, unless it is a secret's.
func (s *Service) show(ctx context.Context, at Branch, r record) (Variable, error) {
	if r.IsSecret {
		return r.shown(""), nil
	}
	value, err := s.open(ctx, at, r)
	return r.shown(value), err
}

// Resolve returns the values of all variables of a branch by name, secrets too,
// for a build of it. It is one query.
func (s *Service) Resolve(ctx context.Context, accountID, project, branch string) (map[string]string, error) {
	at := Branch{Owner: auth.Owner{AccountID: accountID}, Project: project, Branch: branch}
	all, err := s.records(ctx, at)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(all))
	for _, r := range all {
		if out[r.Name], err = s.open(ctx, at, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Service) records(ctx context.Context, at Branch) ([]record, error) {
	all, err := store.Collect[record](ctx, s.parts.Table, store.Query{PK: at.partition()})
	if err != nil {
		return nil, fmt.Errorf("read the variables of a branch: %w", err)
	}
	return all, nil
}

func (s *Service) open(ctx context.Context, at Branch, r record) (string, error) {
	value, err := s.sealer.Open(ctx, r.Sealed, sealContext(at, r.Name))
	if err != nil {
		return "", fmt.Errorf("open the variable %s: %w", r.Name, err)
	}
	return string(value), nil
}

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

func (b Branch) resource(name string) audit.Resource {
	return audit.Resource{Type: "variable", ID: name, Metadata: map[string]string{"project": b.Project, "branch": b.Branch}}
}

// sealContext names a variable's record. The branch stands last, because it
// alone may hold a slash.
func sealContext(at Branch, name string) string {
	return strings.Join([]string{"variable", at.AccountID, at.Project, name, at.Branch}, "/")
}

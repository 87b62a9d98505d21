// Package variables manages environment variables: named values of a project's branch that a build
// substitutes into the project's configuration (specification 2 and 4.7; contract 1.4 and 2.7).
//
// All values are sealed, whether or not they are secrets. After a secret is written, no response contains it: only
// builds (Resolve) and rotations of the root key decrypt it. A change takes effect with the branch's next build.
//
// The package does not decide where a build may use a variable (package project does), and it has no HTTP code.
//
// Read this file first, then table.go and name.go.
package variables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// MaxVariables is the maximum number of variables of a branch (contract 2.7).
const MaxVariables = 100

// Sealer encrypts values. context binds a sealed value to its record, so that no other record can open it.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Service implements the operations on variables. It is safe for concurrent use.
type Service struct {
	parts  installation.Parts
	sealer Sealer
}

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p, p.Sealer()} }

// Branch is the branch of a variable, with the permissions of the caller.
type Branch struct {
	auth.Owner
	Project, Branch string
}

// visible reports whether the caller sees the environment of the branch.
func (b Branch) visible() bool {
	return b.Viewer.CanSee(b.Project, string(environment.ForBranch(b.Branch)))
}

// Variable is the public form of an environment variable.
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
	store.UnknownAttributes

	Name      string    `dynamodbav:"name"`
	Branch    string    `dynamodbav:"branch"`
	IsSecret  bool      `dynamodbav:"isSecret"`
	Sealed    []byte    `dynamodbav:"sealed"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
}

// toVariable returns the public form of the variable. The value of a secret is omitted.
func (r record) toVariable(value string) Variable {
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
	errNameInUse  = fault.New(fault.Conflict,
		"A variable of this name exists on the branch. Update it, or choose another name.")
	errTooMany = fault.New(fault.Invalid, "The branch has %d variables, which is the most it can have. Combine some "+
		"of them, or leave one out.", MaxVariables)
)

// NewVariable is the input of Create.
type NewVariable struct {
	Name     string
	IsSecret bool
	// Value has at most MaxValueBytes bytes and may be empty.
	Value string
}

// Create creates a variable of a branch. The branch need not be deployed yet. Create returns
// Invalid faults for an invalid name or value and for a branch that already has MaxVariables. It
// returns NotFound for a project that is missing or invisible, and Conflict for a name in use.
func (s *Service) Create(ctx context.Context, at Branch, n NewVariable) (Variable, error) {
	var invalid problems
	invalid.check("branchName", branchError(at.Branch))
	invalid.check("name", nameError(n.Name))
	invalid.check("value", valueError(n.Value))
	if err := invalid.Err(); err != nil {
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
		store.Check(store.ProjectKey(at.AccountID, at.Project), store.ProjectActive()).Else(errNoProject),
		store.Create(at.key(n.Name), r).Else(errNameInUse),
		store.Upsert(at.countKey(), store.Add(count, 1), store.Set(store.At("branch"), at.Branch)).
			If(store.Or(store.Lacks(count), store.Less(count, MaxVariables))).Else(errTooMany),
		audit.Record(ctx, at.resource(n.Name)),
	); err != nil {
		return Variable{}, err
	}
	return r.toVariable(n.Value), nil
}

// Update changes the value of a variable; nil leaves it unchanged. It returns Invalid for an invalid value, and
// NotFound if the variable is missing or invisible.
func (s *Service) Update(ctx context.Context, at Branch, name string, value *string) (Variable, error) {
	if value != nil {
		var invalid problems
		invalid.check("value", valueError(*value))
		if err := invalid.Err(); err != nil {
			return Variable{}, err
		}
	}
	var out Variable
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) (err error) {
		out, err = s.updateOnce(ctx, at, name, value)
		return err
	})
	return out, err
}

// updateOnce is one attempt of Update.
func (s *Service) updateOnce(ctx context.Context, at Branch, name string, value *string) (Variable, error) {
	r, err := s.find(ctx, at, name)
	if err != nil {
		return Variable{}, err
	}
	if value == nil {
		return s.toVariable(ctx, at, r)
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
	return r.toVariable(*value), nil
}

// List returns the branch's variables in the order of their names. It returns NotFound for a project
// that is missing or invisible. Any branch of an existing project has a list, which may be empty.
func (s *Service) List(ctx context.Context, at Branch) ([]Variable, error) {
	if branchError(at.Branch) != "" || !at.visible() {
		return nil, errNoProject
	}
	all, err := s.records(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		if err := s.parts.Table.RequireProject(ctx, at.AccountID, at.Project, errNoProject); err != nil {
			return nil, err
		}
	}
	out := make([]Variable, len(all))
	for i, r := range all {
		if out[i], err = s.toVariable(ctx, at, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Read returns a variable. It returns NotFound if the variable is missing or invisible.
func (s *Service) Read(ctx context.Context, at Branch, name string) (Variable, error) {
	r, err := s.find(ctx, at, name)
	if err != nil {
		return Variable{}, err
	}
	return s.toVariable(ctx, at, r)
}

// Delete deletes a variable. Its name may then be used again. Existing builds
// keep the value. It returns NotFound if the variable is missing or invisible.
func (s *Service) Delete(ctx context.Context, at Branch, name string) error {
	if !at.canAccess(name) {
		return errNoVariable
	}
	return s.parts.Table.Commit(ctx,
		store.Delete(at.key(name)).If(store.Exists()).Else(errNoVariable),
		store.Upsert(at.countKey(), store.Add(store.At("count"), -1), store.Set(store.At("branch"), at.Branch)),
		audit.Record(ctx, at.resource(name)),
	)
}

// canAccess reports whether the name is valid for a variable of the branch
// and the caller sees the branch. Other names are not valid table keys.
func (b Branch) canAccess(name string) bool {
	return nameError(name) == "" && branchError(b.Branch) == "" && b.visible()
}

func (s *Service) find(ctx context.Context, at Branch, name string) (record, error) {
	if !at.canAccess(name) {
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

// toVariable returns the variable with its value, unless it is a secret.
func (s *Service) toVariable(ctx context.Context, at Branch, r record) (Variable, error) {
	if r.IsSecret {
		return r.toVariable(""), nil
	}
	value, err := s.open(ctx, at, r)
	return r.toVariable(value), err
}

// Resolve returns the values of all variables of a branch by name, including secrets, for a build of the branch. It
// reads them with one query.
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
	return audit.Resource{
		Type: "variable", ID: name,
		Metadata: map[string]string{"project": b.Project, "branch": b.Branch},
	}
}

// sealContext returns the context that binds a sealed value to a variable's
// record. The branch is last, because only the branch may contain a slash.
func sealContext(at Branch, name string) string {
	return strings.Join([]string{"variable", at.AccountID, at.Project, name, at.Branch}, "/")
}

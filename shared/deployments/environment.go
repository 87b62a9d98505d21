package deployments

import (
	"context"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Environment is a branch's environment as its owner sees it. It has one
// deployment, which may have been built or not.
type Environment struct {
	// Name is its deployment's, unique in the installation for ever.
	Name                     string
	Account, Project, Branch string
	Kind                     environment.Kind
	CreatedOn                time.Time
	// URL is where its deployment is, or will be, served.
	URL string
}

// environmentRecord is a branch's environment: it names its deployment and
// lists it with the project's others.
type environmentRecord struct {
	store.Rest

	AccountID  string           `dynamodbav:"accountId"`
	Account    string           `dynamodbav:"account"`
	Project    string           `dynamodbav:"project"`
	Branch     string           `dynamodbav:"branch"`
	Kind       environment.Kind `dynamodbav:"kind"`
	Deployment string           `dynamodbav:"deployment"`
	CreatedOn  time.Time        `dynamodbav:"createdOn"`
}

// newEnvironment makes the records of a branch's environment and its deployment,
// which is not built yet, with the writes that create them; raced is answered when
// the branch has one.
func (s *Service) newEnvironment(o auth.Owner, project, branch string, raced error) (Record, environmentRecord, []store.Write) {
	now, kind := s.now(), environment.OfBranch(branch)
	r := Record{
		Name:      deploymentName(project, branch, s.parts.IDs.Hex(suffixChars + 1)[:suffixChars]),
		AccountID: o.AccountID, Account: o.Account, Project: project, Branch: branch, Kind: kind,
		CreatedOn: now, UpdatedOn: now,
	}
	e := environmentRecord{
		AccountID: o.AccountID, Account: o.Account, Project: project, Branch: branch, Kind: kind,
		Deployment: r.Name, CreatedOn: now,
	}
	return r, e, []store.Write{
		store.Create(environmentKey(o.AccountID, project, branch), e).Else(raced),
		// A name in use, even by a tombstone, is met by other digits.
		store.Create(Key(r.Name), r).Else(store.ErrStale),
	}
}

func (e environmentRecord) resource() audit.Resource {
	return audit.Resource{Type: "environment", ID: e.Deployment, Metadata: map[string]string{"project": e.Project, "branch": e.Branch}}
}

func (e environmentRecord) seenBy(o auth.Owner) bool {
	return e.Deployment != "" && sees(o, e.Project, e.Kind)
}

func (s *Service) viewEnvironment(e environmentRecord) Environment {
	return Environment{
		Name: e.Deployment, Account: e.Account, Project: e.Project, Branch: e.Branch, Kind: e.Kind, CreatedOn: e.CreatedOn,
		URL: s.parts.Config.DeploymentOrigin(e.Deployment),
	}
}

var (
	errNoEnvironment    = fault.Missing("environment")
	errEnvironmentInUse = fault.New(fault.Conflict, "The branch has an environment already. Read it by the branch's name.")
)

// CreateEnvironment makes the environment of a project's branch, with the name of
// its deployment, so that both are known before anything is uploaded. kind is what
// the caller takes the branch for: the branch decides (contract 3.2).
func (s *Service) CreateEnvironment(ctx context.Context, owner auth.Owner, project, branch string, kind environment.Kind) (Environment, error) {
	if err := checkBranch(branch); err != nil {
		return Environment{}, err
	}
	if of := environment.OfBranch(branch); of != kind {
		return Environment{}, fault.InvalidField("environmentType", "this branch's environment is %s: main, master and production are production, all others preview", of)
	}
	if !IsProjectName(project) || !sees(owner, project, kind) {
		return Environment{}, errNoProject
	}
	var made environmentRecord
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		_, e, writes := s.newEnvironment(owner, project, branch, errEnvironmentInUse)
		made = e
		rooms := s.rooms(owner)
		if err := s.parts.Table.Load(ctx, rooms.environments.Wanted()); err != nil {
			return err
		}
		room, err := rooms.environment(ctx)
		if err != nil {
			return err
		}
		writes = append(writes, room)
		return s.parts.Table.Commit(ctx, append([]store.Write{
			store.Check(store.ProjectKey(owner.AccountID, project), store.ProjectStands()).Else(errNoProject),
			audit.Record(ctx, e.resource()),
		}, writes...)...)
	})
	return s.viewEnvironment(made), err
}

// ListEnvironments returns the environments of a project that the caller sees,
// production first, then by their branches.
func (s *Service) ListEnvironments(ctx context.Context, owner auth.Owner, project string) ([]Environment, error) {
	records, err := s.environments(ctx, owner, project)
	if err != nil {
		return nil, err
	}
	var out []Environment
	for _, e := range records {
		if e.seenBy(owner) {
			out = append(out, s.viewEnvironment(e))
		}
	}
	slices.SortStableFunc(out, func(a, b Environment) int { return rank(a.Kind) - rank(b.Kind) })
	return out, nil
}

// environments reads those of a project, which is NotFound where there is none.
func (s *Service) environments(ctx context.Context, owner auth.Owner, project string) ([]environmentRecord, error) {
	if !owner.Viewer.SeesProject(project) || !IsProjectName(project) {
		return nil, errNoProject
	}
	records, err := store.Collect[environmentRecord](ctx, s.parts.Table, store.Query{PK: environmentPartition(owner.AccountID, project)})
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, s.parts.Table.ProjectThere(ctx, owner.AccountID, project, errNoProject)
	}
	return records, nil
}

// EnvironmentAt names an environment: by its own name, which is its deployment's,
// or by its branch (contract 2.7).
type EnvironmentAt struct {
	auth.Owner
	Name string
	// Project, if not empty, has to be the environment's.
	Project string
}

// ReadEnvironment returns an environment. A name goes before a branch of the same
// text. A branch that several of the projects have which the caller sees is a
// Conflict: there is no telling which one is meant.
func (s *Service) ReadEnvironment(ctx context.Context, at EnvironmentAt) (Environment, error) {
	if len(at.Name) <= maxDNSLabel && projectPattern.MatchString(at.Name) {
		var r Record
		if err := s.parts.Table.Load(ctx, store.Want(Key(at.Name), &r)); err != nil {
			return Environment{}, err
		}
		if r.seenBy(at.Owner) && (at.Project == "" || at.Project == r.Project) {
			return s.viewEnvironment(environmentRecord{
				Account: r.Account, Project: r.Project, Branch: r.Branch, Kind: r.Kind, Deployment: r.Name, CreatedOn: r.CreatedOn,
			}), nil
		}
	}
	if checkBranch(at.Name) != nil {
		return Environment{}, errNoEnvironment
	}
	found, err := s.ofBranch(ctx, at)
	switch {
	case err != nil:
		return Environment{}, err
	case len(found) == 0:
		return Environment{}, errNoEnvironment
	case len(found) > 1:
		return Environment{}, fault.New(fault.Conflict, "Several projects have an environment of this branch. Name the project in the query, as projectName, or the environment by its own name.")
	}
	return s.viewEnvironment(found[0]), nil
}

// ofBranch finds the environments of a branch that the caller sees, in one project
// or all. It reads one item a project, 100 at a time.
func (s *Service) ofBranch(ctx context.Context, at EnvironmentAt) ([]environmentRecord, error) {
	names := []string{at.Project}
	if at.Project == "" {
		projects, err := s.ListProjects(ctx, at.Owner)
		if err != nil {
			return nil, err
		}
		names = names[:0]
		for _, p := range projects {
			names = append(names, p.Name)
		}
	}
	kind := environment.OfBranch(at.Name)
	names = slices.DeleteFunc(names, func(name string) bool { return !IsProjectName(name) || !sees(at.Owner, name, kind) })
	var found []environmentRecord
	for part := range slices.Chunk(names, store.MaxKeys) {
		records := make([]environmentRecord, len(part))
		wanted := make([]*store.Wanted, len(part))
		for i, name := range part {
			wanted[i] = store.Want(environmentKey(at.AccountID, name, at.Name), &records[i])
		}
		if err := s.parts.Table.Load(ctx, wanted...); err != nil {
			return nil, err
		}
		for _, e := range records {
			if e.seenBy(at.Owner) {
				found = append(found, e)
			}
		}
	}
	return found, nil
}

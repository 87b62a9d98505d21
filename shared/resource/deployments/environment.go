package deployments

import (
	"context"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// Environment is the public form of a branch's environment. Each environment has one deployment, which may have no
// build yet.
type Environment struct {
	// Name is the name of the deployment. It is unique in the installation and never reused.
	Name                     string
	Account, Project, Branch string
	Kind                     environment.Kind
	CreatedOn                time.Time
	// URL is the address of the deployment, even if no build is served yet.
	URL string
}

// environmentRecord is the record of a branch's environment. It contains the name of the environment's deployment. The
// deployments of a project are found through these records.
type environmentRecord struct {
	store.UnknownAttributes

	AccountID  string           `dynamodbav:"accountId"`
	Account    string           `dynamodbav:"account"`
	Project    string           `dynamodbav:"project"`
	Branch     string           `dynamodbav:"branch"`
	Kind       environment.Kind `dynamodbav:"kind"`
	Deployment string           `dynamodbav:"deployment"`
	CreatedOn  time.Time        `dynamodbav:"createdOn"`
}

// newEnvironment returns the records of a branch's environment and its unbuilt deployment, with the
// writes that create them. The writes fail with conflict if the branch already has an environment.
func (s *Service) newEnvironment(
	o auth.Owner, project, branch string, conflict error,
) (Record, environmentRecord, []store.Write) {
	now, kind := s.now(), environment.ForBranch(branch)
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
		store.Create(environmentKey(o.AccountID, project, branch), e).Else(conflict),
		// If the name is in use, even by a tombstone, the retry uses other digits.
		store.Create(Key(r.Name), r).Else(store.ErrStale),
	}
}

func (e environmentRecord) resource() audit.Resource {
	return audit.Resource{
		Type: "environment", ID: e.Deployment,
		Metadata: map[string]string{"project": e.Project, "branch": e.Branch},
	}
}

func (e environmentRecord) visibleTo(o auth.Owner) bool {
	return e.Deployment != "" && canSee(o, e.Project, e.Kind)
}

func (s *Service) toEnvironment(e environmentRecord) Environment {
	return Environment{
		Name: e.Deployment, Account: e.Account, Project: e.Project, Branch: e.Branch, Kind: e.Kind, CreatedOn: e.CreatedOn,
		URL: s.parts.Config.DeploymentOrigin(e.Deployment),
	}
}

var (
	errNoEnvironment    = fault.Missing("environment")
	errEnvironmentInUse = fault.New(fault.Conflict, "The branch has an environment already. Read it by the branch's name.")
)

// CreateEnvironment creates the environment of a project's branch, with a deployment that has no build. So the common
// name of the environment and its deployment is known before the first upload. kind must be the result of
// environment.ForBranch for the branch (contract 3.2). CreateEnvironment returns Invalid for another kind and for an
// invalid branch, NotFound for a project that is missing, invisible or being deleted, Conflict if the branch has an
// environment, and the refusal of limits.Environments.
func (s *Service) CreateEnvironment(
	ctx context.Context, owner auth.Owner, project, branch string, kind environment.Kind,
) (Environment, error) {
	if err := checkBranch(branch); err != nil {
		return Environment{}, err
	}
	if branchKind := environment.ForBranch(branch); branchKind != kind {
		return Environment{},
			fault.InvalidField("environmentType", "this branch's environment is %s: main, master and production are "+
				"production, all others preview", branchKind)
	}
	if !IsProjectName(project) || !canSee(owner, project, kind) {
		return Environment{}, errNoProject
	}
	var created environmentRecord
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		_, e, writes := s.newEnvironment(owner, project, branch, errEnvironmentInUse)
		created = e
		accountLimits := s.reservations(owner)
		if err := s.parts.Table.Load(ctx, accountLimits.environments.ReadRequest()); err != nil {
			return err
		}
		reservation, err := accountLimits.reserveEnvironment(ctx)
		if err != nil {
			return err
		}
		writes = append(writes, reservation)
		return s.parts.Table.Commit(ctx, append([]store.Write{
			store.Check(store.ProjectKey(owner.AccountID, project), store.ProjectActive()).Else(errNoProject),
			audit.Record(ctx, e.resource()),
		}, writes...)...)
	})
	return s.toEnvironment(created), err
}

// ListEnvironments returns the environments of a project that the caller can see: production environments first, each
// kind sorted by branch. It returns NotFound like ListDeployments.
func (s *Service) ListEnvironments(ctx context.Context, owner auth.Owner, project string) ([]Environment, error) {
	records, err := s.environments(ctx, owner, project)
	if err != nil {
		return nil, err
	}
	var out []Environment
	for _, e := range records {
		if e.visibleTo(owner) {
			out = append(out, s.toEnvironment(e))
		}
	}
	slices.SortStableFunc(out, func(a, b Environment) int { return rank(a.Kind) - rank(b.Kind) })
	return out, nil
}

// environments reads the environments of a project. It returns NotFound if the project is missing or invisible to the
// caller.
func (s *Service) environments(ctx context.Context, owner auth.Owner, project string) ([]environmentRecord, error) {
	if !owner.Viewer.CanSeeProject(project) || !IsProjectName(project) {
		return nil, errNoProject
	}
	records, err := store.Collect[environmentRecord](ctx, s.parts.Table,
		store.Query{PK: environmentPartition(owner.AccountID, project)})
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, s.parts.Table.RequireProject(ctx, owner.AccountID, project, errNoProject)
	}
	return records, nil
}

// EnvironmentLocator identifies an environment (contract 2.7). Name is the environment's own name, which is also the name of
// its deployment, or its branch.
type EnvironmentLocator struct {
	auth.Owner
	Name string
	// Project, if not empty, must be the environment's project.
	Project string
}

// ReadEnvironment returns an environment. If at.Name is both a name and a branch, the name takes precedence. A branch
// is ambiguous if several projects that the caller can see have it: then ReadEnvironment returns Conflict. It returns
// NotFound for an environment that is missing or invisible.
func (s *Service) ReadEnvironment(ctx context.Context, at EnvironmentLocator) (Environment, error) {
	if len(at.Name) <= maxDNSLabel && projectPattern.MatchString(at.Name) {
		var r Record
		if err := s.parts.Table.Load(ctx, store.Get(Key(at.Name), &r)); err != nil {
			return Environment{}, err
		}
		if r.visibleTo(at.Owner) && (at.Project == "" || at.Project == r.Project) {
			return s.toEnvironment(environmentRecord{
				Account: r.Account, Project: r.Project, Branch: r.Branch, Kind: r.Kind, Deployment: r.Name, CreatedOn: r.CreatedOn,
			}), nil
		}
	}
	if checkBranch(at.Name) != nil {
		return Environment{}, errNoEnvironment
	}
	found, err := s.findByBranch(ctx, at)
	switch {
	case err != nil:
		return Environment{}, err
	case len(found) == 0:
		return Environment{}, errNoEnvironment
	case len(found) > 1:
		return Environment{}, fault.New(fault.Conflict, "Several projects have an environment of this branch. Name the "+
			"project in the query, as projectName, or the environment by its own name.")
	}
	return s.toEnvironment(found[0]), nil
}

// findByBranch returns the environments of a branch that the caller can see, in at.Project or, if that is empty, in all
// projects. It reads one item per project, store.MaxKeys at a time.
func (s *Service) findByBranch(ctx context.Context, at EnvironmentLocator) ([]environmentRecord, error) {
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
	kind := environment.ForBranch(at.Name)
	names = slices.DeleteFunc(names, func(name string) bool {
		return !IsProjectName(name) || !canSee(at.Owner, name, kind)
	})
	var found []environmentRecord
	for chunk := range slices.Chunk(names, store.MaxKeys) {
		records := make([]environmentRecord, len(chunk))
		gets := make([]*store.ReadRequest, len(chunk))
		for i, name := range chunk {
			gets[i] = store.Get(environmentKey(at.AccountID, name, at.Name), &records[i])
		}
		if err := s.parts.Table.Load(ctx, gets...); err != nil {
			return nil, err
		}
		for _, e := range records {
			if e.visibleTo(at.Owner) {
				found = append(found, e)
			}
		}
	}
	return found, nil
}

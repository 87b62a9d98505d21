package deployments

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// Project is what is deployed: it has an environment for each branch and three
// key buckets.
type Project struct {
	ID        string    `dynamodbav:"id"` // a UUID
	AccountID string    `dynamodbav:"accountId"`
	Account   string    `dynamodbav:"account"`
	Name      string    `dynamodbav:"name"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
}

func (p Project) resource() audit.Resource {
	return audit.Resource{Type: "project", ID: p.ID, Metadata: map[string]string{"name": p.Name}}
}

var errNoProject = fault.Missing("project")

var errProjectNameInUse = fault.New(fault.Unprocessable, "A project of this name exists in the account. Choose another name.")

// CreateProject makes a project and its three key buckets, in one transaction.
// A name that is in use or not allowed is Unprocessable, for clients to ask
// again. A caller limited to some projects can make only one of those.
func (s *Service) CreateProject(ctx context.Context, owner Owner, name string) (Project, error) {
	if err := checkProject(name); err != nil {
		return Project{}, err
	}
	if !owner.Viewer.SeesProject(name) {
		return Project{}, fault.New(fault.Forbidden, "This account key is limited to some projects, and a project of this name is none of them.")
	}
	project := s.newProject(owner, name)
	writes, err := s.projectWrites(ctx, owner, project, errProjectNameInUse)
	if err != nil {
		return Project{}, err
	}
	if err := s.Table.Commit(ctx, append(writes, audit.Record(ctx, project.resource()))...); err != nil {
		return Project{}, err
	}
	return project, nil
}

func (s *Service) newProject(owner Owner, name string) Project {
	now := s.now()
	return Project{
		ID: s.IDs.UUID(), AccountID: owner.AccountID, Account: owner.Account, Name: name,
		CreatedOn: now, UpdatedOn: now,
	}
}

// projectWrites make a project with its buckets; raced is answered when there
// is one of the name.
func (s *Service) projectWrites(ctx context.Context, owner Owner, p Project, raced error) ([]store.Write, error) {
	buckets, err := s.Buckets.DefaultBuckets(ctx, keys.Owner{AccountID: owner.AccountID, Account: owner.Account}, p.Name)
	if err != nil {
		return nil, err
	}
	create := store.Create(store.ProjectKey(p.AccountID, p.Name), p).Else(raced)
	return append([]store.Write{create}, buckets...), nil
}

// ListProjects gives the account's projects that the caller sees, in the order
// of names.
func (s *Service) ListProjects(ctx context.Context, owner Owner) ([]Project, error) {
	all, err := store.Collect[Project](ctx, s.Table, store.Query{PK: store.ProjectPartition(owner.AccountID)})
	if err != nil {
		return nil, err
	}
	var out []Project
	for _, p := range all {
		if owner.Viewer.SeesProject(p.Name) {
			out = append(out, p)
		}
	}
	return out, nil
}

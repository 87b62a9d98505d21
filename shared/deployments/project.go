package deployments

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// Project is what is deployed: it has an environment for each branch and three
// key buckets.
type Project struct {
	store.Rest

	ID        string    `dynamodbav:"id"` // a UUID
	AccountID string    `dynamodbav:"accountId"`
	Account   string    `dynamodbav:"account"`
	Name      string    `dynamodbav:"name"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	// DeletedOn is set while the project is deleted (store.ProjectStands), by the
	// operation Deletion.
	DeletedOn *time.Time `dynamodbav:"deletedOn,omitempty"`
	Deletion  string     `dynamodbav:"deletion,omitempty"`
	// Domains counts the custom domains that lead to its deployments (Reattached).
	Domains int64 `dynamodbav:"domains,omitempty"`
}

func (p Project) exists() bool { return p.ID != "" && p.DeletedOn == nil }

func (p Project) resource() audit.Resource {
	return audit.Resource{Type: "project", ID: p.ID, Metadata: map[string]string{"name": p.Name}}
}

var errNoProject = fault.Missing("project")

var errProjectNameInUse = fault.New(fault.Unprocessable, "A project of this name exists in the account, or is still being deleted. Choose another name.")

// CreateProject makes a project and its three key buckets, in one transaction.
// A name that is in use or not allowed is Unprocessable, for clients to ask
// again. A caller limited to some projects can make only one of those.
func (s *Service) CreateProject(ctx context.Context, owner auth.Owner, name string) (Project, error) {
	if err := checkProject(name); err != nil {
		return Project{}, err
	}
	if !owner.Viewer.SeesProject(name) {
		return Project{}, fault.New(fault.Forbidden, "This account key is limited to some projects, and a project of this name is none of them. Use a key that sees it.")
	}
	var project Project
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		project = s.newProject(owner, name)
		buckets, rooms := s.buckets(owner, name), s.rooms(owner)
		if err := s.parts.Table.Load(ctx, append(buckets.Wanted(), rooms.projects.Wanted())...); err != nil {
			return err
		}
		made, err := buckets.Writes(ctx)
		if err != nil {
			return err
		}
		room, err := rooms.project(ctx)
		if err != nil {
			return err
		}
		writes := append([]store.Write{project.create(errProjectNameInUse), audit.Record(ctx, project.resource()), room}, made...)
		return s.parts.Table.Commit(ctx, writes...)
	})
	if err != nil {
		return Project{}, err
	}
	return project, nil
}

func (s *Service) newProject(owner auth.Owner, name string) Project {
	now := s.now()
	return Project{
		ID: s.parts.IDs.UUID(), AccountID: owner.AccountID, Account: owner.Account, Name: name,
		CreatedOn: now, UpdatedOn: now,
	}
}

// create is the write that makes the project; raced is answered when there is
// one of the name.
func (p Project) create(raced error) store.Write {
	return store.Create(store.ProjectKey(p.AccountID, p.Name), p).Else(raced)
}

func (s *Service) buckets(owner auth.Owner, project string) *keys.DefaultBuckets {
	return s.makeBuckets.DefaultBuckets(auth.Owner{AccountID: owner.AccountID, Account: owner.Account}, project)
}

// ListProjects returns the account's projects that the caller sees, in the order
// of names.
func (s *Service) ListProjects(ctx context.Context, owner auth.Owner) ([]Project, error) {
	all, err := store.Collect[Project](ctx, s.parts.Table, store.Query{PK: store.ProjectPartition(owner.AccountID)})
	if err != nil {
		return nil, err
	}
	var out []Project
	for _, p := range all {
		if p.exists() && owner.Viewer.SeesProject(p.Name) {
			out = append(out, p)
		}
	}
	return out, nil
}

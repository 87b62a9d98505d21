package deployments

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// Project is the unit that clients deploy. It has an environment for each branch, and three default key buckets.
type Project struct {
	store.UnknownAttributes

	ID        string    `dynamodbav:"id"` // a UUID
	AccountID string    `dynamodbav:"accountId"`
	Account   string    `dynamodbav:"account"`
	Name      string    `dynamodbav:"name"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	// DeletedOn is set while the project is being deleted (store.ProjectActive). Deletion is the id of the operation
	// that deletes it.
	DeletedOn *time.Time `dynamodbav:"deletedOn,omitempty"`
	Deletion  string     `dynamodbav:"deletion,omitempty"`
	// Domains is the number of attachments of custom domains to the project's deployments (AttachmentWrites). A custom
	// domain with two of these deployments counts twice.
	Domains int64 `dynamodbav:"domains,omitempty"`
}

func (p Project) exists() bool { return p.ID != "" && p.DeletedOn == nil }

func (p Project) resource() audit.Resource {
	return audit.Resource{Type: "project", ID: p.ID, Metadata: map[string]string{"name": p.Name}}
}

var errNoProject = fault.Missing("project")

var errProjectNameInUse = fault.New(fault.Unprocessable,
	"A project of this name exists in the account, or is still being deleted. Choose another name.")

// CreateProject creates a project and its three key buckets in one transaction. If the name is in use or invalid, it
// returns Unprocessable, so that clients prompt for another name. It returns Forbidden if the caller is limited to some
// projects and the name is not one of them, or if the account would exceed limits.Projects or limits.KeyBuckets. It
// returns Conflict if a bucket that does not serve the project has the name of one of the three key buckets.
func (s *Service) CreateProject(ctx context.Context, owner auth.Owner, name string) (Project, error) {
	if err := checkProject(name); err != nil {
		return Project{}, err
	}
	if !owner.Viewer.CanSeeProject(name) {
		return Project{}, fault.New(fault.Forbidden, "This account key is limited to some projects, and a project of this "+
			"name is none of them. Use a key that sees it.")
	}
	var project Project
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		project = s.newProject(owner, name)
		buckets, accountLimits := s.buckets(owner, name), s.reservations(owner)
		if err := s.parts.Table.Load(ctx, append(buckets.ReadRequests(),
			accountLimits.projects.ReadRequest())...); err != nil {
			return err
		}
		bucketWrites, err := buckets.Writes(ctx)
		if err != nil {
			return err
		}
		reservation, err := accountLimits.reserveProject(ctx)
		if err != nil {
			return err
		}
		writes := append([]store.Write{
			project.createWrite(errProjectNameInUse), audit.Record(ctx, project.resource()),
			reservation,
		}, bucketWrites...)
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

// createWrite returns the write that creates the project. The write fails with conflict if a project with the name
// exists.
func (p Project) createWrite(conflict error) store.Write {
	return store.Create(store.ProjectKey(p.AccountID, p.Name), p).Else(conflict)
}

func (s *Service) buckets(owner auth.Owner, project string) *keys.DefaultBuckets {
	return s.bucketCreator.DefaultBuckets(auth.Owner{AccountID: owner.AccountID, Account: owner.Account}, project)
}

// ListProjects returns the account's projects that the caller can see, sorted by name.
func (s *Service) ListProjects(ctx context.Context, owner auth.Owner) ([]Project, error) {
	all, err := store.Collect[Project](ctx, s.parts.Table, store.Query{PK: store.ProjectPartition(owner.AccountID)})
	if err != nil {
		return nil, err
	}
	var out []Project
	for _, p := range all {
		if p.exists() && owner.Viewer.CanSeeProject(p.Name) {
			out = append(out, p)
		}
	}
	return out, nil
}

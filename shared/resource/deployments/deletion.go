package deployments

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Deletion is the status of a project's deletion (contract 3.11).
type Deletion struct {
	// ID is the id of the durable operation.
	ID     string
	Status operation.Status
	// Message is a sentence for people.
	Message string
}

// DeletionInput is the input of a DeleteProject.
type DeletionInput struct {
	AccountID string `json:"accountId"`
	Project   string `json:"project"`
}

var (
	errNoDeletion   = fault.Missing("operation")
	errBeingDeleted = fault.New(fault.Conflict,
		"The project is being deleted. Wait until its operation has ended, then repeat the request.")
	errRestrictedKey = fault.New(fault.Forbidden, "This account key is limited to some kinds of environment, and the "+
		"project's deletion is of all. Use a key of all environments.")
)

// ReadProject returns a project. It returns NotFound for a project that is missing, invisible to the caller or being
// deleted.
func (s *Service) ReadProject(ctx context.Context, owner auth.Owner, name string) (Project, error) {
	if !IsProjectName(name) || !owner.Viewer.CanSeeProject(name) {
		return Project{}, errNoProject
	}
	var p Project
	if err := s.parts.Table.Load(ctx, store.Get(store.ProjectKey(owner.AccountID, name), &p)); err != nil {
		return Project{}, err
	}
	if !p.exists() {
		return Project{}, errNoProject
	}
	return p, nil
}

// DeleteProject begins the deletion of a project with its deployments, environments, variables and default
// buckets. From then on, resources in the project cannot be created, and the name is not free until the
// operation has removed the project. DeleteProject returns NotFound like ReadProject, Forbidden for a caller that is
// limited to some kinds of environment, and Conflict if a custom domain is attached to one of the project's
// deployments.
func (s *Service) DeleteProject(ctx context.Context, owner auth.Owner, name string) (Deletion, error) {
	var id string
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		p, err := s.ReadProject(ctx, owner, name)
		if err != nil {
			return err
		}
		switch {
		case !owner.Viewer.CanSee(name, ""):
			return errRestrictedKey
		case p.Domains > 0:
			return errProjectHasDomains
		}
		now := s.now()
		id = s.parts.IDs.New("pdel", 24)
		return s.parts.Table.Commit(ctx,
			store.Update(store.ProjectKey(owner.AccountID, name),
				store.Set(store.At("deletedOn"), now),
				store.Set(store.At("updatedOn"), now),
				store.Set(store.At("deletion"), id),
			).If(store.ProjectActive()).Else(errNoProject),
			operation.Create(operation.Start{
				ID: id, Kind: DeleteProject, Subject: name, AccountID: owner.AccountID,
				Input: DeletionInput{AccountID: owner.AccountID, Project: name},
			}, now),
			audit.Record(ctx, p.resource()),
		)
	})
	if err != nil {
		return Deletion{}, err
	}
	return deletion(id, operation.InProgress), nil
}

// ReadDeletion returns the deletion with this id of a project with this name. A deletion that has ended can be read for
// as long as operations are kept. ReadDeletion returns NotFound if there is no such deletion, and for a caller that is
// limited to some kinds of environment.
func (s *Service) ReadDeletion(ctx context.Context, owner auth.Owner, project, id string) (Deletion, error) {
	if !IsProjectName(project) || !owner.Viewer.CanSee(project, "") || id == "" {
		return Deletion{}, errNoDeletion
	}
	var r operation.Record
	if err := s.parts.Table.Load(ctx, store.Get(operation.Key(id), &r)); err != nil {
		return Deletion{}, err
	}
	if r.Kind != DeleteProject || r.AccountID != owner.AccountID || r.Subject != project {
		return Deletion{}, errNoDeletion
	}
	return deletion(r.ID, r.Status), nil
}

func deletion(id string, status operation.Status) Deletion {
	d := Deletion{ID: id, Status: status, Message: "The project is being deleted."}
	if status == operation.Success {
		d.Message = "The project is deleted."
	}
	return d
}

// DeleteDeployments returns the task that deletes all deployments and environments of a project. Their number is not
// limited.
func DeleteDeployments(table *store.Table) operation.Task {
	return operation.Items[environmentRecord]{
		Table: table,
		Query: func(_ context.Context, s operation.Step) (store.Query, error) {
			var in DeletionInput
			err := s.Input(&in)
			return store.Query{PK: environmentPartition(in.AccountID, in.Project)}, err
		},
		Change: func(_ context.Context, s operation.Step, e environmentRecord, write operation.Group) error {
			// DeleteDeployment may delete the deployment meanwhile. It then also deletes the environment.
			if err := write(tombstoneWrites(e.Deployment, e.AccountID, s.Now, store.ErrCondition)...); err != nil {
				return fmt.Errorf("end a deployment: %w", err)
			}
			return write(store.Delete(environmentKey(e.AccountID, e.Project, e.Branch)))
		},
	}.Drain()
}

// ReleaseProject is the task that removes a project's record, which frees its name.
func ReleaseProject(_ context.Context, s operation.Step) (operation.Result, error) {
	var in DeletionInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{Writes: []store.Write{
		store.Delete(store.ProjectKey(in.AccountID, in.Project)).If(store.Equal(store.At("deletion"), s.ID)),
	}}, nil
}

package deployments

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Deletion is how the deletion of a project goes (contract 3.11).
type Deletion struct {
	// ID is that of its durable operation.
	ID     string
	Status operation.Status
	// Message is a sentence for people.
	Message string
}

// DeletionInput is what a DeleteProject is begun with.
type DeletionInput struct {
	AccountID string `json:"accountId"`
	Project   string `json:"project"`
}

var (
	errNoDeletion   = fault.Missing("operation")
	errBeingDeleted = fault.New(fault.Conflict, "The project is being deleted. Wait until its operation has ended, then repeat the request.")
	errNotAll       = fault.New(fault.Forbidden, "This account key is limited to some kinds of environment, and the project's deletion is of all. Use a key of all environments.")
)

// ReadProject returns a project. One that is being deleted is NotFound.
func (s *Service) ReadProject(ctx context.Context, owner auth.Owner, name string) (Project, error) {
	if !IsProjectName(name) || !owner.Viewer.SeesProject(name) {
		return Project{}, errNoProject
	}
	var p Project
	if err := s.parts.Table.Load(ctx, store.Want(store.ProjectKey(owner.AccountID, name), &p)); err != nil {
		return Project{}, err
	}
	if !p.exists() {
		return Project{}, errNoProject
	}
	return p, nil
}

// DeleteProject begins the deletion of a project with its deployments, environments,
// variables and default buckets. From then on nothing is made in it, and nobody makes
// another of its name until the operation is done with it. A caller of some kinds of
// environment is Forbidden.
func (s *Service) DeleteProject(ctx context.Context, owner auth.Owner, name string) (Deletion, error) {
	var id string
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		p, err := s.ReadProject(ctx, owner, name)
		if err != nil {
			return err
		}
		switch {
		case !owner.Viewer.MaySee(name, ""):
			return errNotAll
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
			).If(store.ProjectStands()).Else(errNoProject),
			operation.Begin(operation.Start{
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

// ReadDeletion returns a deletion of a project of the name, also after its end: for
// as long as operations are kept.
func (s *Service) ReadDeletion(ctx context.Context, owner auth.Owner, project, id string) (Deletion, error) {
	if !IsProjectName(project) || !owner.Viewer.MaySee(project, "") || id == "" {
		return Deletion{}, errNoDeletion
	}
	var r operation.Record
	if err := s.parts.Table.Load(ctx, store.Want(operation.Key(id), &r)); err != nil {
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

// Stop is the task that ends the deployments of a project with their environments,
// however many there are.
func Stop(table *store.Table) operation.Task {
	return operation.Items[environmentRecord]{
		Table: table,
		Query: func(_ context.Context, s operation.Step) (store.Query, error) {
			var in DeletionInput
			err := s.Input(&in)
			return store.Query{PK: environmentPartition(in.AccountID, in.Project)}, err
		},
		Change: func(_ context.Context, s operation.Step, e environmentRecord, write operation.Group) error {
			// One that somebody deletes meanwhile takes its environment along.
			if err := write(tombstone(e.Deployment, e.AccountID, s.Now, store.ErrCondition)...); err != nil {
				return fmt.Errorf("end a deployment: %w", err)
			}
			return write(store.Delete(environmentKey(e.AccountID, e.Project, e.Branch)))
		},
	}.Drain()
}

// Release is the task that removes a project's record, and so frees its name.
func Release(_ context.Context, s operation.Step) (operation.Result, error) {
	var in DeletionInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{Writes: []store.Write{
		store.Delete(store.ProjectKey(in.AccountID, in.Project)).If(store.Equal(store.At("deletion"), s.ID)),
	}}, nil
}

package store

import "context"

// projectSpace has the projects of an account, which are a partition, in the
// order of their names. Its owner is package deployments. It stands here alone
// of all spaces because package variables asks whether a project is there:
// it has no other need of deployments, which would bring durable operations and
// key buckets into every function that only reads variables.
const projectSpace Space = "projects"

// ProjectPartition holds all projects of an account.
func ProjectPartition(accountID string) string { return projectSpace.Partition(accountID) }

// ProjectKey is the record of a project.
func ProjectKey(accountID, project string) Key { return In(ProjectPartition(accountID), project) }

// projectDeletedOn is set in the record of a project that is being deleted: nothing is
// made in it any more, and its name is free once the record is gone.
const projectDeletedOn = "deletedOn"

// ProjectStands holds for the record of a project that is not being deleted. Every
// write that makes something in a project comes with a check of it.
func ProjectStands() Condition { return And(Exists(), Lacks(At(projectDeletedOn))) }

// ProjectThere answers missing unless there is a project that is not being deleted.
func (t *Table) ProjectThere(ctx context.Context, accountID, project string, missing error) error {
	var r struct {
		DeletedOn string `dynamodbav:"deletedOn"`
	}
	there := Want(ProjectKey(accountID, project), &r)
	if err := t.Load(ctx, there); err != nil {
		return err
	}
	if !there.Found || r.DeletedOn != "" {
		return missing
	}
	return nil
}

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
	gone, err := t.ProjectsMissing(ctx, accountID, project)
	if err == nil && len(gone) > 0 {
		err = missing
	}
	return err
}

// ProjectsMissing gives those of an account's projects, at most MaxKeys, that are not there
// or being deleted.
func (t *Table) ProjectsMissing(ctx context.Context, accountID string, projects ...string) (missing []string, err error) {
	records := make([]struct {
		DeletedOn string `dynamodbav:"deletedOn"`
	}, len(projects))
	wanted := make([]*Wanted, len(projects))
	for i, project := range projects {
		wanted[i] = Want(ProjectKey(accountID, project), &records[i])
	}
	if err := t.Load(ctx, wanted...); err != nil {
		return nil, err
	}
	for i, project := range projects {
		if !wanted[i].Found || records[i].DeletedOn != "" {
			missing = append(missing, project)
		}
	}
	return missing, nil
}

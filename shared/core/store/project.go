package store

import "context"

// projectPrefix is the key prefix of projects. Each account has one partition, with the account's projects in
// the order of their names. Its owner is package deployments. The prefix is declared in this package because
// package variables also checks whether a project exists. If package variables imported package deployments
// for this, every function that only reads variables would contain durable operations and key buckets.
const projectPrefix KeyPrefix = "projects"

// ProjectPartition returns the partition of an account's projects.
func ProjectPartition(accountID string) string { return projectPrefix.Partition(accountID) }

// ProjectKey returns the key of a project's record.
func ProjectKey(accountID, project string) Key { return KeyIn(ProjectPartition(accountID), project) }

// deletedOnAttribute is set in the record of a project that is being deleted. Nothing can
// be created in such a project. Its name can be used again when the record is deleted.
const deletedOnAttribute = "deletedOn"

// ProjectActive holds for the record of a project that is not being deleted. Every
// transaction that creates something in a project must check this condition.
func ProjectActive() Condition { return And(Exists(), Lacks(At(deletedOnAttribute))) }

// RequireProject returns the error notFound unless the project exists and is not being deleted.
func (t *Table) RequireProject(ctx context.Context, accountID, project string, notFound error) error {
	missing, err := t.MissingProjects(ctx, accountID, project)
	if err == nil && len(missing) > 0 {
		err = notFound
	}
	return err
}

// MissingProjects returns the names in projects whose projects do not exist or are being deleted. There can be at most
// MaxKeys names.
func (t *Table) MissingProjects(
	ctx context.Context, accountID string, projects ...string,
) (missing []string, err error) {
	records := make([]struct {
		DeletedOn string `dynamodbav:"deletedOn"`
	}, len(projects))
	requests := make([]*ReadRequest, len(projects))
	for i, project := range projects {
		requests[i] = Get(ProjectKey(accountID, project), &records[i])
	}
	if err := t.Load(ctx, requests...); err != nil {
		return nil, err
	}
	for i, project := range projects {
		if !requests[i].Found || records[i].DeletedOn != "" {
			missing = append(missing, project)
		}
	}
	return missing, nil
}

package store

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

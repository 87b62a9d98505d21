package deployments

import "github.com/gatewright/gatewright/shared/store"

// Projects stand in store.ProjectPartition, which package variables reads too.
const (
	// environmentSpace has the environments. Those of a project are a
	// partition, in the order of their branches: lists read it whole, an upload
	// one of them by its branch.
	environmentSpace store.Space = "environments"
	// deploymentSpace has the deployments by their names, which it keeps unique
	// in the installation: a name is the first label of a host name, by which
	// gateways read it.
	deploymentSpace store.Space = "deployment"
	// uploadSpace has the uploads by their statusIds.
	uploadSpace store.Space = "upload"
	// formatSpace has the one record of the format of artifacts. The sweep reads it once a minute.
	formatSpace store.Space = "artifact-format"
	// begunSpace has the upload addresses and builds that have not ended (begun). Those of an account are a partition,
	// by their statusIds, which is counted where the account has many.
	begunSpace store.Space = "builds-begun"
)

func environmentPartition(accountID, project string) string {
	return environmentSpace.Partition(accountID, project)
}

func environmentKey(accountID, project, branch string) store.Key {
	return store.In(environmentPartition(accountID, project), branch)
}

// Key is the key of a deployment's Record.
func Key(name string) store.Key { return deploymentSpace.Key(name) }

// IsDeployment reports whether the record at a key is a deployment's Record.
func IsDeployment(key store.Key) bool { return deploymentSpace.PartsOf(key.PK) != nil }
func formatKey() store.Key            { return formatSpace.Key() }

func uploadKey(statusID string) store.Key { return uploadSpace.Key(statusID) }

func begunPartition(accountID string) string { return begunSpace.Partition(accountID) }

func begunKey(accountID, statusID string) store.Key {
	return store.In(begunPartition(accountID), statusID)
}

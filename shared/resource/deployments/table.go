package deployments

import "github.com/gatewright/gatewright/shared/core/store"

// Projects are in store.ProjectPartition, which package variables also reads.
const (
	// environmentPrefix is the key prefix of the environments. Each project has a partition with its environments,
	// sorted by branch. Lists read the whole partition. An upload reads one environment by its branch.
	environmentPrefix store.KeyPrefix = "environments"
	// deploymentPrefix is the key prefix of the deployments, by their names. It makes the names unique in the
	// installation. A name is the first label of a host name, so that gateways can read the deployment of a request.
	deploymentPrefix store.KeyPrefix = "deployment"
	// uploadPrefix is the key prefix of the uploads, by their StatusIDs.
	uploadPrefix store.KeyPrefix = "upload"
	// formatPrefix is the key prefix of the installation's only formatRecord. Each running release reads this record once
	// a minute (EnsureFormat).
	formatPrefix store.KeyPrefix = "artifact-format"
	// openBuildPrefix is the key prefix of the upload addresses and builds that have not ended. Each account has a
	// partition with its own, by their StatusIDs. The partition is counted if the account may have reached its limit.
	openBuildPrefix store.KeyPrefix = "builds-begun"
)

func environmentPartition(accountID, project string) string {
	return environmentPrefix.Partition(accountID, project)
}

func environmentKey(accountID, project, branch string) store.Key {
	return store.KeyIn(environmentPartition(accountID, project), branch)
}

// Key returns the key of a deployment's Record.
func Key(name string) store.Key { return deploymentPrefix.Key(name) }

// IsDeployment reports whether the record at a key is a deployment's Record.
func IsDeployment(key store.Key) bool { return deploymentPrefix.Parts(key.PK) != nil }
func formatKey() store.Key            { return formatPrefix.Key() }

func uploadKey(statusID string) store.Key { return uploadPrefix.Key(statusID) }

func openBuildPartition(accountID string) string { return openBuildPrefix.Partition(accountID) }

func openBuildKey(accountID, statusID string) store.Key {
	return store.KeyIn(openBuildPartition(accountID), statusID)
}

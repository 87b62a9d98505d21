package variables

import "github.com/gatewright/gatewright/shared/store"

const (
	// variableSpace has the variables. Those of a branch are a partition: lists
	// and builds read it whole, a change one of them by its name.
	variableSpace store.Space = "variables"
	// countSpace has the number of variables of each branch, which has a limit.
	// Those of a project are a partition, by which its deletion finds the branches.
	// A count is no item of its branch's partition: that is read whole, and the
	// count is written with each variable.
	countSpace store.Space = "variable-count"
)

func (b Branch) partition() string { return variableSpace.Partition(b.AccountID, b.Project, b.Branch) }

func (b Branch) key(name string) store.Key { return store.In(b.partition(), name) }

func (b Branch) countKey() store.Key {
	return store.In(countPartition(b.AccountID, b.Project), b.Branch)
}

func countPartition(accountID, project string) string {
	return countSpace.Partition(accountID, project)
}

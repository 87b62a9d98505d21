package variables

import "github.com/gatewright/gatewright/shared/store"

const (
	// variableSpace has the variables. Those of a branch are a partition: lists
	// and builds read it whole, a change one of them by its name.
	variableSpace store.Space = "variables"
	// countSpace has the number of variables of each branch, which has a limit.
	// It is no item of their partition: they are read whole, and it is written
	// with each.
	countSpace store.Space = "variable-count"
)

func (b Branch) partition() string { return variableSpace.Partition(b.AccountID, b.Project, b.Branch) }

func (b Branch) key(name string) store.Key { return store.In(b.partition(), name) }

func (b Branch) countKey() store.Key { return countSpace.Key(b.AccountID, b.Project, b.Branch) }

package variables

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/store"
)

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

// Counted is a branch that has, or once had, variables.
type Counted struct {
	store.Rest

	Branch string `dynamodbav:"branch"`
}

// CountedOf is the query of a project's.
func CountedOf(accountID, project string) store.Query {
	return store.Query{PK: countPartition(accountID, project)}
}

// InProject counts the variables of all branches of a project.
func InProject(ctx context.Context, table *store.Table, accountID, project string) (n int, err error) {
	branches, err := store.Collect[Counted](ctx, table, CountedOf(accountID, project))
	if err != nil {
		return 0, fmt.Errorf("list the branches that have variables: %w", err)
	}
	for _, c := range branches {
		at := Branch{Owner: auth.Owner{AccountID: accountID}, Project: project, Branch: c.Branch}
		own, err := table.Count(ctx, store.Query{PK: at.partition()})
		if err != nil {
			return 0, fmt.Errorf("count the variables of a branch: %w", err)
		}
		n += own
	}
	return n, nil
}

// Purge hands the deletion of each of the branch's variables to write, and that of
// its place among the counted last: for the deletion of the project, in which
// nothing is made any more (store.ProjectStands).
func (c Counted) Purge(ctx context.Context, table *store.Table, accountID, project string, write func(...store.Write) error) error {
	at := Branch{Owner: auth.Owner{AccountID: accountID}, Project: project, Branch: c.Branch}
	all, err := table.Keys(ctx, store.Query{PK: at.partition()})
	if err != nil {
		return fmt.Errorf("read the variables of a branch: %w", err)
	}
	for _, key := range all {
		if err := write(store.Delete(key)); err != nil {
			return err
		}
	}
	return write(store.Delete(at.countKey()))
}

package variables

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// variablePrefix is the key prefix of the variables. The variables of a branch are one partition.
	// Lists and builds read the whole partition, and a change reads one variable by its name.
	variablePrefix store.KeyPrefix = "variables"
	// countPrefix is the key prefix of the number of variables of each branch, which is limited. The counts of a
	// project are one partition. The deletion of the project finds the branches in this partition. A branch's count is
	// not in the partition of its variables, because lists and builds read that whole partition, and the count changes
	// with each variable.
	countPrefix store.KeyPrefix = "variable-count"
)

func (b Branch) partition() string { return variablePrefix.Partition(b.AccountID, b.Project, b.Branch) }

func (b Branch) key(name string) store.Key { return store.KeyIn(b.partition(), name) }

func (b Branch) countKey() store.Key {
	return store.KeyIn(countPartition(b.AccountID, b.Project), b.Branch)
}

func countPartition(accountID, project string) string {
	return countPrefix.Partition(accountID, project)
}

// BranchCount is the record of the number of a branch's variables. It exists for each branch that has or once had
// variables.
type BranchCount struct {
	store.UnknownAttributes

	Branch string `dynamodbav:"branch"`
}

// BranchCountsQuery returns the query for the BranchCount items of a project.
func BranchCountsQuery(accountID, project string) store.Query {
	return store.Query{PK: countPartition(accountID, project)}
}

// CountInProject returns the number of variables of all branches of a project.
func CountInProject(ctx context.Context, table *store.Table, accountID, project string) (n int, err error) {
	branches, err := store.Collect[BranchCount](ctx, table, BranchCountsQuery(accountID, project))
	if err != nil {
		return 0, fmt.Errorf("list the branches that have variables: %w", err)
	}
	for _, c := range branches {
		at := Branch{Owner: auth.Owner{AccountID: accountID}, Project: project, Branch: c.Branch}
		count, err := table.Count(ctx, store.Query{PK: at.partition()})
		if err != nil {
			return 0, fmt.Errorf("count the variables of a branch: %w", err)
		}
		n += count
	}
	return n, nil
}

// Purge calls write with the deletion of each variable of the branch, and then with the deletion of the branch's count.
// Call it only while the project is being deleted, because then no variables can be created (store.ProjectActive).
func (c BranchCount) Purge(
	ctx context.Context, table *store.Table, accountID, project string, write func(...store.Write) error,
) error {
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

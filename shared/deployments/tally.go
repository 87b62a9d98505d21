package deployments

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/store"
)

// EnvironmentsIn counts the environments of a project, each of which has a deployment.
func EnvironmentsIn(ctx context.Context, table *store.Table, accountID, project string) (int, error) {
	n, err := table.Count(ctx, store.Query{PK: environmentPartition(accountID, project)})
	if err != nil {
		return 0, fmt.Errorf("count the environments of a project: %w", err)
	}
	return n, nil
}

// removes tells a dry run of the deletion of a deployment that its environment goes
// with it.
func removes(ctx context.Context) error {
	return store.Removes(ctx, func(context.Context) (map[string]int, error) {
		return map[string]int{"deployments": 1, "environments": 1}, nil
	})
}

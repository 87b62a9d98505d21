package deployments

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/store"
)

// In counts the environments of a project, and those deployments of theirs that are
// there to be seen: one that nothing was ever built for is a name that is kept free.
func In(ctx context.Context, table *store.Table, accountID, project string) (environments, deployments int, err error) {
	all, err := store.Collect[environmentRecord](ctx, table, store.Query{PK: environmentPartition(accountID, project)})
	if err != nil {
		return 0, 0, fmt.Errorf("count the environments of a project: %w", err)
	}
	records, err := recordsOf(ctx, table, all)
	if err != nil {
		return 0, 0, fmt.Errorf("count the deployments of a project: %w", err)
	}
	for _, r := range records {
		if r.exists() && r.begun() {
			deployments++
		}
	}
	return len(all), deployments, nil
}

// removes tells a dry run of the deletion of a deployment that its environment goes
// with it.
func removes(ctx context.Context) error {
	return store.Removes(ctx, func(context.Context) (map[string]int, error) {
		return map[string]int{"deployments": 1, "environments": 1}, nil
	})
}

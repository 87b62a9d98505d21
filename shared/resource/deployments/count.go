package deployments

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/core/store"
)

// CountInProject returns the number of a project's environments and the number of its deployments. A deployment without
// a build is only a reserved name and is not counted.
func CountInProject(
	ctx context.Context, table *store.Table, accountID, project string,
) (environments, deployments int, err error) {
	all, err := store.Collect[environmentRecord](ctx, table, store.Query{PK: environmentPartition(accountID, project)})
	if err != nil {
		return 0, 0, fmt.Errorf("count the environments of a project: %w", err)
	}
	records, err := recordsOf(ctx, table, all)
	if err != nil {
		return 0, 0, fmt.Errorf("count the deployments of a project: %w", err)
	}
	for _, r := range records {
		if r.exists() && r.hasBuild() {
			deployments++
		}
	}
	return len(all), deployments, nil
}

// reportRemovals reports to a dry run what the deletion of a deployment deletes: the deployment and its environment.
func reportRemovals(ctx context.Context) error {
	return store.ReportRemovals(ctx, func(context.Context) (map[string]int, error) {
		return map[string]int{"deployments": 1, "environments": 1}, nil
	})
}

package deployments

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// Users tells which deployments show a certificate to their upstreams.
type Users struct{ Table *store.Table }

// UsersOf gives the names of a project's deployments whose served build shows the mTLS
// certificate of this id, in their order.
func (u Users) UsersOf(ctx context.Context, accountID, project, certificateID string) ([]string, error) {
	environments, err := store.Collect[environmentRecord](ctx, u.Table, store.Query{PK: environmentPartition(accountID, project)})
	if err != nil {
		return nil, fmt.Errorf("read a project's environments: %w", err)
	}
	var out []string
	for part := range slices.Chunk(environments, store.MaxKeys) {
		records := make([]Record, len(part))
		wanted := make([]*store.Wanted, len(part))
		for i, e := range part {
			wanted[i] = store.Want(Key(e.Deployment), &records[i])
		}
		if err := u.Table.Load(ctx, wanted...); err != nil {
			return nil, fmt.Errorf("read a project's deployments: %w", err)
		}
		for _, r := range records {
			if r.exists() && r.Served != nil && slices.Contains(r.Served.Certificates, certificateID) {
				out = append(out, r.Name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

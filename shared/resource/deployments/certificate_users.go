package deployments

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// CertificateUsers finds the deployments that present a certificate to their upstreams.
type CertificateUsers struct{ Table *store.Table }

// UsersOf returns the sorted names of the deployments of a project whose served build presents the mTLS certificate
// with this id.
func (u CertificateUsers) UsersOf(ctx context.Context, accountID, project, certificateID string) ([]string, error) {
	environments, err := store.Collect[environmentRecord](ctx, u.Table,
		store.Query{PK: environmentPartition(accountID, project)})
	if err != nil {
		return nil, fmt.Errorf("read a project's environments: %w", err)
	}
	var out []string
	for chunk := range slices.Chunk(environments, store.MaxKeys) {
		records := make([]Record, len(chunk))
		gets := make([]*store.ReadRequest, len(chunk))
		for i, e := range chunk {
			gets[i] = store.Get(Key(e.Deployment), &records[i])
		}
		if err := u.Table.Load(ctx, gets...); err != nil {
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

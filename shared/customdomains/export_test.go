package customdomains

import (
	"context"
)

// Serve has a hostname be served as if an account had proven it, and uploaded a certificate.
func (s *Service) Serve(ctx context.Context, hostname, deployment, chain, key string) error {
	r := record{ID: "cdm_" + hostname, AccountID: "a-1", Hostname: hostname, Stage: API, Mappings: []Mapping{{Deployment: deployment}}, Shard: shardOf(hostname)}
	own := s.verified(&r)[1:] // without the account's record
	if err := s.parts.Table.Commit(ctx, own...); err != nil {
		return err
	}
	writes, err := s.serving(ctx, r, chain, key)
	if err != nil {
		return err
	}
	return s.parts.Table.Commit(ctx, writes...)
}

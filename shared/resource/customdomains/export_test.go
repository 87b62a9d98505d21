package customdomains

import (
	"context"
)

// Serve stores a hostname as if an account had verified it and uploaded a certificate.
func (s *Service) Serve(ctx context.Context, hostname, deployment, chain, key string) error {
	r := record{
		ID: "cdm_" + hostname, AccountID: "a-1", Hostname: hostname, Stage: API,
		Mappings: []Mapping{{Deployment: deployment}}, Shard: shardOf(hostname),
	}
	hostWrites := s.verifyWrites(&r)[1:] // without the account's record
	if err := s.parts.Table.Commit(ctx, hostWrites...); err != nil {
		return err
	}
	writes, err := s.serveCertificateWrites(ctx, r, chain, key)
	if err != nil {
		return err
	}
	return s.parts.Table.Commit(ctx, writes...)
}

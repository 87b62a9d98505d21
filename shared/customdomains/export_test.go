package customdomains

import (
	"context"

	"github.com/gatewright/gatewright/shared/store"
)

// Serve has a hostname be served as if an account had proven it, and uploaded a certificate.
func (s *Service) Serve(ctx context.Context, hostname, deployment, chain, key string) error {
	r := record{ID: "cdm_" + hostname, AccountID: "a-1", Hostname: hostname, Stage: API, Mappings: []Mapping{{Deployment: deployment}}}
	if err := s.parts.Table.Commit(ctx, store.Create(hostKey(hostname), host{ID: r.ID, AccountID: r.AccountID, Hostname: hostname, Deployment: deployment})); err != nil {
		return err
	}
	writes, err := s.serving(ctx, r, chain, key)
	if err != nil {
		return err
	}
	return s.parts.Table.Commit(ctx, writes...)
}

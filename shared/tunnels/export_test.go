package tunnels

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// InPortions has a service's operations change so few services in a step.
func (s *Service) InPortions(n int) *Service {
	s.portion = n
	return s
}

// Provisioned are an account's services as a call would find them, by their names.
func (s *Service) Provisioned(ctx context.Context, accountID string) (map[string]serviceRecord, error) {
	return s.services(ctx, accountID)
}

// TunnelOf is the tunnel that a token leads to, "" for none.
func (s *Service) TunnelOf(ctx context.Context, token string) (accountID, tunnelID string, err error) {
	hash, err := s.tokens.Hash(ctx, token)
	if err != nil {
		return "", "", err
	}
	var r tokenRecord
	err = s.parts.Table.Load(ctx, store.Want(tokenKey(hash), &r))
	return r.AccountID, r.TunnelID, err
}

// Claims are the names of an account's services that are a tunnel's, in their order.
func (s *Service) Claims(ctx context.Context, accountID, tunnelID string) ([]string, error) {
	n, err := s.register(ctx, accountID)
	var out []string
	for name, id := range n.Services {
		if id == tunnelID {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, err
}

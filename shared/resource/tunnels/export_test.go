package tunnels

import (
	"context"
	"slices"
)

// MaxRewrites is the maximum number of configurations that a transaction rewrites.
const MaxRewrites = maxRewrites

// LimitPerStep limits the number of services that a step of the service's operations changes.
func (s *Service) LimitPerStep(n int) *Service {
	s.maxPerStep = n
	return s
}

// Provisioned returns an account's provisioned services by their names.
func (s *Service) Provisioned(ctx context.Context, accountID string) (map[string]serviceRecord, error) {
	return s.services(ctx, accountID)
}

// Claims returns the names of a tunnel's services in the account's register, sorted.
func (s *Service) Claims(ctx context.Context, accountID, tunnelID string) ([]string, error) {
	n, err := s.readRegister(ctx, accountID)
	var out []string
	for name, id := range n.Services {
		if id == tunnelID {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, err
}

// MaxCached is the maximum number of results in one cache.
const MaxCached = maxCached

// CachedServices returns the number of cached services, including names without a service.
func (d *Directory) CachedServices() int { return len(d.services.entries) }

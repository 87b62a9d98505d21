package tunnels

import (
	"context"
	"slices"
)

// MaxForgetting is how many configurations a transaction rewrites.
const MaxForgetting = maxForgetting

// InPortions has a service's operations change so few services in a step.
func (s *Service) InPortions(n int) *Service {
	s.portion = n
	return s
}

// Provisioned are an account's services as a call would find them, by their names.
func (s *Service) Provisioned(ctx context.Context, accountID string) (map[string]serviceRecord, error) {
	return s.services(ctx, accountID)
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

// MaxRemembered is how many answers of a kind a directory remembers.
const MaxRemembered = maxRemembered

// Remembered is how many services a directory remembers, and those that are none.
func (d *Directory) Remembered() int { return len(d.services.answers) }

package tunnels

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// maxTokenBytes is the maximum length of a token that is looked up. Our tokens have some 200 bytes.
const maxTokenBytes = 1024

var (
	// ErrNoService means that an account has no service with exactly this name. It wraps the *tunnel.Error that an agent
	// without the service returns.
	ErrNoService = fmt.Errorf("tunnels: the account has no service of this name: %w",
		&tunnel.Error{Failure: tunnel.UnknownService})
	// ErrNotAllowed means that the service exists but the caller may not call it. It wraps the *tunnel.Error that an agent
	// returns to such a caller.
	ErrNotAllowed = fmt.Errorf("tunnels: the service is not for the caller: %w", &tunnel.Error{Failure: tunnel.NotAllowed})
	// ErrNoTunnel means that a ref is invalid, or that its tunnel was deleted.
	ErrNoTunnel = errors.New("tunnels: the tunnel was deleted")
)

// Directory looks up tunnels and services for gateways and relays. It is safe for concurrent use.
//
// A tunnel is identified by its ref, which is opaque to callers. The first lookup of a service or a tunnel takes one
// read, and that of a tunnel without services takes two. Concurrent lookups wait for the same read, and the result is
// cached for Staleness. Tokens are not cached.
type Directory struct {
	table    *store.Table
	tokens   *seal.Hasher
	services cache[foundService]
	tunnels  cache[[]tunnel.Service]
}

// foundService is the result of the lookup of a service. ref is the tunnel's ref, "" if the service does not exist.
type foundService struct {
	ref     string
	service tunnel.Service
}

// OpenDirectory returns the Directory of an installation.
func OpenDirectory(p installation.Parts) *Directory {
	return &Directory{
		table: p.Table, tokens: p.Hasher(tokenPurpose),
		services: cache[foundService]{now: p.Now}, tunnels: cache[[]tunnel.Service]{now: p.Now},
	}
}

// Authenticate returns the ref of the tunnel with a token, or "" if no tunnel has the token. It reads the token's
// record each time, so that a token is invalid as soon as it is rotated or its tunnel is deleted (contract 2.8).
func (d *Directory) Authenticate(ctx context.Context, token string) (ref string, err error) {
	if token == "" || len(token) > maxTokenBytes {
		return "", nil
	}
	hashes, err := d.tokens.Lookups(ctx, token)
	if err != nil {
		return "", fmt.Errorf("hash a tunnel's token: %w", err)
	}
	for _, hash := range hashes { // more than one while the root key is rotated
		var r tokenRecord
		if err := d.table.Load(ctx, store.Get(tokenKey(hash), &r)); err != nil {
			return "", fmt.Errorf("read what a tunnel's token leads to: %w", err)
		}
		if r.TunnelID != "" {
			return newRef(r.AccountID, r.TunnelID), nil
		}
	}
	return "", nil
}

// Services returns the services of a tunnel, with which its agents check whether a caller is allowed. They are the
// services in the latest configuration, which is one item. Gateways use the provisioned services (Find), which are
// updated some seconds later. So an agent normally knows a service before any gateway sends requests to it, and refuses
// a removed caller before the gateways do. Services returns ErrNoTunnel for a tunnel that was deleted and for an
// invalid ref. For a tunnel without services it also reads the tunnel's record.
func (d *Directory) Services(ctx context.Context, ref string) ([]tunnel.Service, error) {
	accountID, tunnelID, ok := strings.Cut(ref, "/")
	if !ok || accountID == "" || tunnelID == "" {
		return nil, ErrNoTunnel
	}
	return d.tunnels.get(ctx, ref, func(ctx context.Context) ([]tunnel.Service, error) {
		var c configuration
		if err := d.table.Load(ctx, store.Get(configurationKey(accountID, tunnelID), &c)); err != nil {
			return nil, fmt.Errorf("read a tunnel's configuration: %w", err)
		}
		if len(c.Services) == 0 {
			return nil, d.requireTunnel(ctx, accountID, tunnelID)
		}
		out := make([]tunnel.Service, len(c.Services))
		for i, s := range c.Services {
			out[i] = s.toTunnelService()
		}
		return out, nil
	})
}

// requireTunnel returns ErrNoTunnel if the tunnel does not exist.
func (d *Directory) requireTunnel(ctx context.Context, accountID, tunnelID string) error {
	var r record
	if err := d.table.Load(ctx, store.Get(tunnelKey(accountID, tunnelID), &r)); err != nil {
		return fmt.Errorf("read whether a tunnel is there: %w", err)
	}
	if r.ID == "" {
		return ErrNoTunnel
	}
	return nil
}

// Find returns the ref of the tunnel of an account's service. Gateways and relays check with Find whether a caller is
// allowed. The name must match exactly. Find returns ErrNoService for a name that is not a service of the account, even
// if other accounts have such a service. It returns ErrNotAllowed for a caller that may not call the service. Other
// errors are failed reads.
func (d *Directory) Find(ctx context.Context, accountID, service string, c tunnel.Caller) (ref string, err error) {
	if accountID == "" || !tunnel.IsName(service) {
		return "", ErrNoService
	}
	result, err := d.services.get(ctx, newRef(accountID, service), func(ctx context.Context) (foundService, error) {
		var r serviceRecord
		if err := d.table.Load(ctx, store.Get(serviceKey(accountID, service), &r)); err != nil {
			return foundService{}, fmt.Errorf("read a service: %w", err)
		}
		if r.ID == "" {
			return foundService{}, nil
		}
		return foundService{newRef(accountID, r.TunnelID), r.toTunnelService()}, nil
	})
	switch {
	case err != nil:
		return "", err
	case result.ref == "":
		return "", ErrNoService
	case !result.service.Allows(c):
		return "", ErrNotAllowed
	}
	return result.ref, nil
}

// newRef returns the reference to an account's object. id is the
// object's id or name. It contains no slash, and neither does accountID.
func newRef(accountID, id string) string { return accountID + "/" + id }

// toTunnelService returns the service in the form that gateways, relays and agents use.
func (s Spec) toTunnelService() tunnel.Service {
	out := tunnel.Service{Name: s.Name, Endpoint: s.Endpoint, Access: make([]tunnel.Access, len(s.Configurations))}
	for i, c := range s.Configurations {
		out.Access[i] = tunnel.Access{Project: c.Project, Environments: make([]string, len(c.AccessibleBy))}
		for j, kind := range c.AccessibleBy {
			out.Access[i].Environments[j] = kind.Slug()
		}
	}
	return out
}

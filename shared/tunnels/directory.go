package tunnels

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnel"
)

const (
	// Staleness is how long after a change whoever carries traffic may go by what was before,
	// with readTimeout on top when the table is slow.
	Staleness   = 5 * time.Second
	readTimeout = 2 * time.Second
	// maxRemembered is how many answers of a kind are remembered, some kilobytes each.
	maxRemembered = 4096
	// maxTokenBytes is how long a token may be that is looked for: ours have some 200.
	maxTokenBytes = 1024
)

var (
	// ErrNoService says that an account has no service of a name, exactly as it is written. It is
	// the *tunnel.Error that an agent answers which knows none.
	ErrNoService = fmt.Errorf("tunnels: the account has no service of this name: %w", &tunnel.Error{Failure: tunnel.UnknownService})
	// ErrNotAllowed says that a service is there, and not for the caller: the *tunnel.Error of
	// an agent that lets the caller not in.
	ErrNotAllowed = fmt.Errorf("tunnels: the service is not for the caller: %w", &tunnel.Error{Failure: tunnel.NotAllowed})
	// ErrNoTunnel says that a ref is no tunnel's (any more).
	ErrNoTunnel = errors.New("tunnels: the tunnel was deleted")
)

// Directory is what carrying traffic asks of tunnels, for gateways and relays. It is safe
// for concurrent use.
//
// A tunnel is named by its ref, which is text for whoever holds it. A service and a tunnel
// that are asked for first cost one read each, all who ask meanwhile wait for the same, and none
// follows within Staleness; a token is read each time.
type Directory struct {
	table    *store.Table
	tokens   *seal.Hasher
	services memory[found]
	tunnels  memory[[]tunnel.Service]
}

// found is a service, or none when ref is "".
type found struct {
	ref     string
	service tunnel.Service
}

// OpenDirectory makes the Directory of an installation.
func OpenDirectory(p installation.Parts) *Directory {
	return &Directory{
		table: p.Table, tokens: p.Hasher(tokenPurpose),
		services: memory[found]{now: p.Now}, tunnels: memory[[]tunnel.Service]{now: p.Now},
	}
}

// Authorize tells whose a token is: the tunnel's ref, "" for none. It is read each time, so
// that one which was rotated, or whose tunnel was deleted, opens nothing from then on
// (contract 2.8).
func (d *Directory) Authorize(ctx context.Context, token string) (ref string, err error) {
	if token == "" || len(token) > maxTokenBytes {
		return "", nil
	}
	hashes, err := d.tokens.Lookups(ctx, token)
	if err != nil {
		return "", fmt.Errorf("hash a tunnel's token: %w", err)
	}
	for _, hash := range hashes { // more than one while the root key is rotated
		var r tokenRecord
		if err := d.table.Load(ctx, store.Want(tokenKey(hash), &r)); err != nil {
			return "", fmt.Errorf("read what a tunnel's token leads to: %w", err)
		}
		if r.TunnelID != "" {
			return refOf(r.AccountID, r.TunnelID), nil
		}
	}
	return "", nil
}

// Services are what a tunnel leads to, for its agents' end of the allow-list. They are those
// that were put last, which is one item of the tunnel's own; a gateway goes by what is provisioned
// (Find), which follows within seconds. So an agent knows of a service before anybody is sent to it,
// and lets in nobody who was taken out before the gateways know. The error is ErrNoTunnel for a tunnel
// that was deleted, and for what is no ref: only a tunnel without services costs the read of a second item.
func (d *Directory) Services(ctx context.Context, ref string) ([]tunnel.Service, error) {
	accountID, tunnelID, ok := strings.Cut(ref, "/")
	if !ok || accountID == "" || tunnelID == "" {
		return nil, ErrNoTunnel
	}
	return d.tunnels.get(ctx, ref, func(ctx context.Context) ([]tunnel.Service, error) {
		var c configuration
		if err := d.table.Load(ctx, store.Want(configurationKey(accountID, tunnelID), &c)); err != nil {
			return nil, fmt.Errorf("read a tunnel's configuration: %w", err)
		}
		if len(c.Services) == 0 {
			return nil, d.exists(ctx, accountID, tunnelID)
		}
		out := make([]tunnel.Service, len(c.Services))
		for i, s := range c.Services {
			out[i] = s.carried()
		}
		return out, nil
	})
}

// exists answers ErrNoTunnel where a tunnel is not there.
func (d *Directory) exists(ctx context.Context, accountID, tunnelID string) error {
	var r record
	if err := d.table.Load(ctx, store.Want(tunnelKey(accountID, tunnelID), &r)); err != nil {
		return fmt.Errorf("read whether a tunnel is there: %w", err)
	}
	if r.ID == "" {
		return ErrNoTunnel
	}
	return nil
}

// Find gives the ref of the tunnel that leads to a service of an account: the gateway's and the
// relay's end of the allow-list. The name is taken as it is written. The error is ErrNoService for
// a name that is no service of the account's, whatever other accounts have, and ErrNotAllowed for a
// caller that the service is not for; after any other nothing is remembered.
func (d *Directory) Find(ctx context.Context, accountID, service string, c tunnel.Caller) (ref string, err error) {
	if accountID == "" || !tunnel.IsName(service) {
		return "", ErrNoService
	}
	its, err := d.services.get(ctx, refOf(accountID, service), func(ctx context.Context) (found, error) {
		var r serviceRecord
		if err := d.table.Load(ctx, store.Want(serviceKey(accountID, service), &r)); err != nil {
			return found{}, fmt.Errorf("read a service: %w", err)
		}
		if r.ID == "" {
			return found{}, nil
		}
		return found{refOf(accountID, r.TunnelID), r.carried()}, nil
	})
	switch {
	case err != nil:
		return "", err
	case its.ref == "":
		return "", ErrNoService
	case !its.service.Allows(c):
		return "", ErrNotAllowed
	}
	return its.ref, nil
}

// refOf names what an account has one of under a name or an id without a slash.
func refOf(accountID, id string) string { return accountID + "/" + id }

// carried is a service as those know it who carry traffic to it.
func (s Spec) carried() tunnel.Service {
	out := tunnel.Service{Name: s.Name, Endpoint: s.Endpoint, Access: make([]tunnel.Access, len(s.Configurations))}
	for i, c := range s.Configurations {
		out.Access[i] = tunnel.Access{Project: c.Project, Environments: make([]string, len(c.AccessibleBy))}
		for j, kind := range c.AccessibleBy {
			out.Access[i].Environments[j] = kind.Slug()
		}
	}
	return out
}

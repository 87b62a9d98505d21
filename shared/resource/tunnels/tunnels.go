// Package tunnels manages an account's tunnels: connections to services that only the account's own machines can
// reach. The account's projects may call these services by their names (specification "Tunnel" and 4.8; contract 2.8).
//
// A tunnel has a token, with which an agent authenticates, and a configuration: its services, and the
// environments of projects that may call each service. Names of tunnels and of services are unique in an account.
//
// This package does not forward requests. Package tunnel does, and uses the Directory for lookups. The Directory finds
// a tunnel by the hash of its token, and a service by its account and name. Each lookup normally takes one read of one
// item.
//
// Read this file first, then configuration.go (the configuration), check.go (its validation), provision.go and
// teardown.go (the durable operations), project.go (projects that are deleted) and token.go. directory.go and
// cache.go are for gateways, relays and agents. Each record is defined next to its key prefix.
package tunnels

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// Service implements the operations. It is safe for concurrent use.
type Service struct {
	parts    installation.Parts
	sealer   *seal.Sealer
	tokens   *seal.Hasher
	accounts *seal.Hasher
	// maxPerStep is the maximum number of services that a step of an operation changes.
	maxPerStep int
}

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service {
	return &Service{
		parts: p, sealer: p.Sealer(), tokens: p.Hasher(tokenPurpose), accounts: p.Hasher("tunnel-account"),
		maxPerStep: operation.MaxWrites - 2, // provision adds a check of the configuration, and one write stays unused
	}
}

// relay returns the URL of the installation's relay, nil for none.
func (s *Service) relay() *url.URL {
	u, err := url.Parse(s.parts.Config.Relay)
	if err != nil || u.Host == "" {
		return nil
	}
	return u
}

// Tunnel is the public form of a tunnel.
type Tunnel struct {
	ID, Name string
	// Token is "" in lists.
	Token string
}

// tunnelPrefix is the key prefix of the tunnels (record). Each tunnel has a partition of its own.
const tunnelPrefix store.KeyPrefix = "tunnel"

// record is a tunnel in the table.
type record struct {
	store.UnknownAttributes

	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	Name      string `dynamodbav:"name"`
	// Sealed is the encrypted token. Hash is the keyed hash of the
	// token, which is in the key of the token's record (tokenRecord).
	Sealed    []byte    `dynamodbav:"sealed"`
	Hash      string    `dynamodbav:"hash"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	Version   int64     `dynamodbav:"version"`
}

func tunnelKey(accountID, tunnelID string) store.Key { return tunnelPrefix.Key(accountID, tunnelID) }

// IsTunnel reports whether key is the table key of a tunnel.
func IsTunnel(key store.Key) bool { return tunnelPrefix.Parts(key.PK) != nil }

func (r record) resource() audit.Resource {
	return audit.Resource{Type: "tunnel", ID: r.ID, Metadata: map[string]string{"name": r.Name}}
}

// registerPrefix is the key prefix of the accounts' registers (register).
// A list of tunnels reads the register, and so does each change of names.
const registerPrefix store.KeyPrefix = "tunnel-register"

// register contains the names of an account's tunnels and services. One record has all names, so that a configuration
// claims all of its names or none, in the transaction that stores the configuration. A hundred separate claims, and as
// many releases, would not fit into a transaction. 1,000 services and 100 tunnels with the longest names have 60 KB,
// and an item may have 400 KB.
type register struct {
	store.UnknownAttributes

	ID string `dynamodbav:"id"` // of the account
	// Tunnels maps the names of the account's tunnels to their ids. Services maps the names of services to the ids of their tunnels.
	Tunnels  map[string]string `dynamodbav:"tunnels"`
	Services map[string]string `dynamodbav:"services"`
	Version  int64             `dynamodbav:"version"`
}

func registerKey(accountID string) store.Key { return registerPrefix.Key(accountID) }

// putWrite returns the write of the account's changed register. The commit
// fails if the register has changed since the same transaction has read it.
func (r register) putWrite(accountID string) store.Write {
	r.ID, r.Version = accountID, r.Version+1
	return store.Put(registerKey(accountID), r)
}

var (
	errNoTunnel  = fault.Missing("tunnel")
	errNameInUse = fault.New(fault.Conflict,
		"The account has a tunnel of this name. Choose another name, or use that tunnel.")
	errRestrictedKey = fault.New(fault.NotFound, "This account key is limited to some projects or environments, and "+
		"sees no tunnels, which are the whole account's. Use a key without such limits.")
)

// visible reports whether a caller sees the account's tunnels, which do not belong to any project or environment.
func visible(o auth.Owner) bool { return o.Viewer.CanSee("", "") }

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// find reads a tunnel together with further records of the account. It returns NotFound if the tunnel is missing or invisible.
func (s *Service) find(
	ctx context.Context, owner auth.Owner, id string, gets ...*store.ReadRequest,
) (r record, err error) {
	if !visible(owner) || id == "" {
		return record{}, errNoTunnel
	}
	if err := s.parts.Table.Load(ctx, append(gets, store.Get(tunnelKey(owner.AccountID, id), &r))...); err != nil {
		return record{}, fmt.Errorf("read a tunnel: %w", err)
	}
	if r.ID == "" {
		return record{}, errNoTunnel
	}
	return r, nil
}

// readRegister reads the register of an account, together with further records.
func (s *Service) readRegister(
	ctx context.Context, accountID string, gets ...*store.ReadRequest,
) (n register, err error) {
	if err := s.parts.Table.Load(ctx, append(gets, store.Get(registerKey(accountID), &n))...); err != nil {
		return register{}, fmt.Errorf("read the names of an account's tunnels: %w", err)
	}
	return n, nil
}

// List returns the account's tunnels in the order of their names, without their
// tokens. It returns none if the caller is limited to projects or environments.
func (s *Service) List(ctx context.Context, owner auth.Owner) ([]Tunnel, error) {
	if !visible(owner) {
		return nil, nil
	}
	n, err := s.readRegister(ctx, owner.AccountID)
	if err != nil {
		return nil, err
	}
	out := make([]Tunnel, 0, len(n.Tunnels))
	for _, name := range slices.Sorted(maps.Keys(n.Tunnels)) {
		out = append(out, Tunnel{ID: n.Tunnels[name], Name: name})
	}
	return out, nil
}

// Create creates a tunnel with a token. It returns Conflict for a name in use, Invalid for an invalid name, and
// the refusal of limits.Tunnels. It returns NotFound if the caller is limited to projects or environments.
func (s *Service) Create(ctx context.Context, owner auth.Owner, name string) (Tunnel, error) {
	if !tunnel.IsName(name) {
		return Tunnel{}, fault.InvalidField("name", "%s", nameForm)
	}
	if !visible(owner) {
		return Tunnel{}, errRestrictedKey
	}
	var out Tunnel
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		counter := counts.Open(s.parts).NewCounter(owner.AccountID, limits.Tunnels)
		n, err := s.readRegister(ctx, owner.AccountID, counter.ReadRequest())
		if err != nil {
			return err
		}
		if n.Tunnels[name] != "" {
			return errNameInUse
		}
		if err := counter.Check(int64(len(n.Tunnels)), 1); err != nil {
			return err
		}
		now := s.now()
		r := record{
			ID: s.parts.IDs.New("tnl", 24), AccountID: owner.AccountID, Name: name, CreatedOn: now, UpdatedOn: now,
			Version: 1,
		}
		token, err := s.newToken(ctx, &r)
		if err != nil {
			return err
		}
		out = Tunnel{ID: r.ID, Name: name, Token: token}
		n.Tunnels = withEntry(n.Tunnels, name, r.ID)
		return s.parts.Table.Commit(ctx,
			n.putWrite(owner.AccountID), store.Create(tunnelKey(r.AccountID, r.ID), r), r.tokenWrite(),
			audit.Record(ctx, r.resource()))
	})
	return out, err
}

// withEntry returns a copy of a map with one more entry.
func withEntry(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// Read returns a tunnel with its token. It returns NotFound if the tunnel is missing or invisible.
func (s *Service) Read(ctx context.Context, owner auth.Owner, id string) (Tunnel, error) {
	r, err := s.find(ctx, owner, id)
	if err != nil {
		return Tunnel{}, err
	}
	token, err := s.openToken(ctx, r)
	return Tunnel{ID: r.ID, Name: r.Name, Token: token}, err
}

// Rotate replaces a tunnel's token. The previous token is invalid after the
// commit. Rotate returns NotFound if the tunnel is missing or invisible.
func (s *Service) Rotate(ctx context.Context, owner auth.Owner, id string) (Tunnel, error) {
	var out Tunnel
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, id)
		if err != nil {
			return err
		}
		after := before
		after.UpdatedOn, after.Version = s.now(), before.Version+1
		token, err := s.newToken(ctx, &after)
		if err != nil {
			return err
		}
		out = Tunnel{ID: after.ID, Name: after.Name, Token: token}
		return s.parts.Table.Commit(ctx,
			store.Put(tunnelKey(after.AccountID, after.ID), after),
			store.Delete(tokenKey(before.Hash)), after.tokenWrite(), audit.Record(ctx, after.resource()))
	})
	return out, err
}

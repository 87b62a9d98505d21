// Package tunnels is the service of an account's tunnels: ways to services that only
// the account's own machines reach, which its projects may call by their names
// (specification "Tunnel" and 4.8; contract 2.8).
//
// A tunnel has a token, by which an agent proves whose it is, and a configuration:
// the services behind it, and which projects' environments may call each. Names of
// tunnels and of services are an account's, once each.
//
// What it is not: nothing here carries a request. Package tunnel does, and what it asks is
// the Directory's: a tunnel by the hash of its token, and a service by the account and its
// name, each by one read of one item.
//
// Read this file first, then configuration.go (what is put), check.go (what may be),
// provision.go and teardown.go (the durable operations), project.go (projects that are
// deleted), token.go and table.go; directory.go is for those who carry traffic.
package tunnels

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// Service does the operations. It is safe for concurrent use.
type Service struct {
	parts    installation.Parts
	sealer   *seal.Sealer
	tokens   *seal.Hasher
	accounts *seal.Hasher
	// portion is how many services a step of an operation changes at most.
	portion int
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service {
	return &Service{
		parts: p, sealer: p.Sealer(), tokens: p.Hasher(tokenPurpose), accounts: p.Hasher("tunnel-account"),
		portion: operation.MaxWrites - 2, // the check of the configuration, or the tunnel's own record, besides
	}
}

// relay is the installation's relay, nil for none.
func (s *Service) relay() *url.URL {
	u, err := url.Parse(s.parts.Config.Relay)
	if err != nil || u.Host == "" {
		return nil
	}
	return u
}

// Tunnel is a tunnel as its owner sees it.
type Tunnel struct {
	ID, Name string
	// Token is "" in lists.
	Token string
}

// record is a tunnel in the table.
type record struct {
	store.Rest

	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	Name      string `dynamodbav:"name"`
	// Sealed is the token, Hash leads to its tokenRecord.
	Sealed    []byte    `dynamodbav:"sealed"`
	Hash      string    `dynamodbav:"hash"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	Version   int64     `dynamodbav:"version"`
}

func (r record) resource() audit.Resource {
	return audit.Resource{Type: "tunnel", ID: r.ID, Metadata: map[string]string{"name": r.Name}}
}

// register has the names of an account's tunnels and services. It is one record for all
// of them, so that a configuration claims all of its names or none, in the transaction
// that puts it: a hundred claims of their own, and as many that go, fit none. 1,000 services
// and 100 tunnels with the longest names are 60 KB of the 400 that it may have.
type register struct {
	store.Rest

	ID string `dynamodbav:"id"` // the account's
	// Tunnels has the ids of the account's tunnels by their names, Services those of the
	// tunnels by their services' names.
	Tunnels  map[string]string `dynamodbav:"tunnels"`
	Services map[string]string `dynamodbav:"services"`
	Version  int64             `dynamodbav:"version"`
}

// put is the write of what an account's register has become. It holds over what was read
// by the decision that it is a part of.
func (n register) put(accountID string) store.Write {
	n.ID, n.Version = accountID, n.Version+1
	return store.Put(registerKey(accountID), n)
}

var (
	errNoTunnel = fault.Missing("tunnel")
	errInUse    = fault.New(fault.Conflict, "The account has a tunnel of this name. Choose another name, or use that tunnel.")
	errLimited  = fault.New(fault.NotFound, "This account key is limited to some projects or environments, and sees no tunnels, which are the whole account's. Use a key without such limits.")
)

// visible reports whether a caller sees the account's tunnels, which belong to none of
// its projects and environments.
func visible(o auth.Owner) bool { return o.Viewer.MaySee("", "") }

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// find reads a tunnel, and more of the account's records with it. One that is not there or
// not seen is NotFound.
func (s *Service) find(ctx context.Context, owner auth.Owner, id string, more ...*store.Wanted) (r record, err error) {
	if !visible(owner) || id == "" {
		return record{}, errNoTunnel
	}
	if err := s.parts.Table.Load(ctx, append(more, store.Want(tunnelKey(owner.AccountID, id), &r))...); err != nil {
		return record{}, fmt.Errorf("read a tunnel: %w", err)
	}
	if r.ID == "" {
		return record{}, errNoTunnel
	}
	return r, nil
}

// register reads the names of an account.
func (s *Service) register(ctx context.Context, accountID string, beside ...*store.Wanted) (n register, err error) {
	if err := s.parts.Table.Load(ctx, append(beside, store.Want(registerKey(accountID), &n))...); err != nil {
		return register{}, fmt.Errorf("read the names of an account's tunnels: %w", err)
	}
	return n, nil
}

// List gives the account's tunnels in the order of their names, without their tokens; a
// caller with limits sees none.
func (s *Service) List(ctx context.Context, owner auth.Owner) ([]Tunnel, error) {
	if !visible(owner) {
		return nil, nil
	}
	n, err := s.register(ctx, owner.AccountID)
	if err != nil {
		return nil, err
	}
	out := make([]Tunnel, 0, len(n.Tunnels))
	for _, name := range slices.Sorted(maps.Keys(n.Tunnels)) {
		out = append(out, Tunnel{ID: n.Tunnels[name], Name: name})
	}
	return out, nil
}

// Create makes a tunnel with a token. A name in use is a Conflict; a name that is none is
// Invalid, one more than limits.Tunnels its refusal; a caller with limits is NotFound.
func (s *Service) Create(ctx context.Context, owner auth.Owner, name string) (Tunnel, error) {
	if !tunnel.IsName(name) {
		return Tunnel{}, fault.InvalidField("name", "%s", nameForm)
	}
	if !visible(owner) {
		return Tunnel{}, errLimited
	}
	var out Tunnel
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		tally := counts.Open(s.parts).Of(owner.AccountID, limits.Tunnels)
		n, err := s.register(ctx, owner.AccountID, tally.Wanted())
		if err != nil {
			return err
		}
		if n.Tunnels[name] != "" {
			return errInUse
		}
		if err := tally.Check(int64(len(n.Tunnels)), 1); err != nil {
			return err
		}
		now := s.now()
		r := record{ID: s.parts.IDs.New("tnl", 24), AccountID: owner.AccountID, Name: name, CreatedOn: now, UpdatedOn: now, Version: 1}
		token, err := s.newToken(ctx, &r)
		if err != nil {
			return err
		}
		out = Tunnel{ID: r.ID, Name: name, Token: token}
		n.Tunnels = with(n.Tunnels, name, r.ID)
		return s.parts.Table.Commit(ctx,
			n.put(owner.AccountID), store.Create(tunnelKey(r.AccountID, r.ID), r), r.found(), audit.Record(ctx, r.resource()))
	})
	return out, err
}

// with is a copy of a map with one more entry.
func with(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// Read gives a tunnel with its token. One that is not there or not seen is NotFound.
func (s *Service) Read(ctx context.Context, owner auth.Owner, id string) (Tunnel, error) {
	r, err := s.find(ctx, owner, id)
	if err != nil {
		return Tunnel{}, err
	}
	token, err := s.token(ctx, r)
	return Tunnel{ID: r.ID, Name: r.Name, Token: token}, err
}

// Rotate gives a tunnel another token: from the commit on the one before opens nothing.
// One that is not there or not seen is NotFound.
func (s *Service) Rotate(ctx context.Context, owner auth.Owner, id string) (Tunnel, error) {
	var out Tunnel
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
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
			store.Delete(tokenKey(before.Hash)), after.found(), audit.Record(ctx, after.resource()))
	})
	return out, err
}

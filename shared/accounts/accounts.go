// Package accounts creates accounts and their keys, and authenticates the bearer
// of a key (specification 5, contract 3.9).
//
// An account key is shown once, when it is made; what is stored is a hash of
// it. A key has 190 random bits, so a plain SHA-256 suffices: there is nothing
// to guess offline. A password hash would cost milliseconds and megabytes for
// each request; an HMAC, as consumer keys have it because customers may choose
// those, would need the root key in functions that need it for nothing else.
// Keys are immutable: to change one, make another.
//
// A key stands in the table twice, both written and removed in one transaction:
// by the hash of its text, for who asks, and in its account's list.
//
// Read accounts.go for what is made, keys.go for the keys of an account,
// authenticate.go for who asks, use.go for when a key was last used, record.go
// for what is stored of a key and table.go for where.
package accounts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// Account owns everything else.
type Account struct {
	store.Rest

	ID        string    `dynamodbav:"id"` // a UUID
	Name      string    `dynamodbav:"name"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// namePattern is that of contract 1.4, with bounds of our own.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{1,62}$`)

// createAccount is the action that is recorded. No operation of the API does it.
const createAccount audit.Action = "account.create"

// Service makes accounts and keys and recognises keys. It is safe for
// concurrent use.
type Service struct {
	parts  installation.Parts
	cache  *cache
	counts *counts.Counts
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service {
	return &Service{parts: p, cache: newCache(), counts: counts.Open(p)}
}

// Create makes an account with a first key that allows everything, and answers
// that key's text, the only time it can be read. Faults: Invalid for the name,
// Conflict for one in use.
func (s *Service) Create(ctx context.Context, name string) (Account, string, error) {
	if !namePattern.MatchString(name) {
		return Account{}, "", fault.InvalidField("name",
			"an account's name has 2 to 63 lower-case letters, digits, hyphens and underscores and begins with a letter")
	}
	account := Account{ID: s.parts.IDs.UUID(), Name: name, CreatedOn: s.parts.Now().UTC()}
	text, key := s.mint(account, Spec{Label: "Full access key of " + name, Permissions: auth.Full()})
	ctx = audit.With(ctx, s.request(account, createAccount))
	err := s.parts.Table.Commit(ctx, append(key.creation(hash(text)),
		store.Create(nameKey(name), account).
			Else(fault.New(fault.Conflict, "There is an account named %s already. Choose another name.", name)),
		store.Create(accountKey(account.ID), account),
		audit.Record(ctx, audit.Resource{Type: "account", ID: account.ID}, key.resource()),
	)...)
	if err != nil {
		return Account{}, "", fmt.Errorf("create account: %w", err)
	}
	return account, text, nil
}

// Find reads an account by its name. Fault: NotFound.
func (s *Service) Find(ctx context.Context, name string) (Account, error) {
	var account Account
	err := s.parts.Table.Get(ctx, nameKey(name), &account)
	if errors.Is(err, store.ErrNotFound) {
		return Account{}, fault.New(fault.NotFound, "There is no account of this name. Name one that was made, or make it first.")
	}
	if err != nil {
		return Account{}, fmt.Errorf("read account: %w", err)
	}
	return account, nil
}

// limitAccount is the action that is recorded for a limit of an account's own.
const limitAccount audit.Action = "account.limit"

// Limits lists the limits of an account. Fault: NotFound.
func (s *Service) Limits(ctx context.Context, name string) ([]counts.Status, error) {
	account, err := s.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.counts.List(ctx, account.ID)
}

// SetLimit gives an account a value of its own of a limit, or 0 for that of the installation. It changes nothing that the
// account has: one that has more makes no more. Faults: NotFound for the account; Invalid for a limit that no account has
// its own value of, and for a value that it cannot have.
func (s *Service) SetLimit(ctx context.Context, name, limit string, value int64) error {
	l, err := limits.Find(limits.Own(), limit)
	if err != nil {
		return err
	}
	account, err := s.Find(ctx, name)
	if err != nil {
		return err
	}
	ctx = audit.With(ctx, s.request(account, limitAccount))
	return s.counts.Set(ctx, account.ID, l, value, audit.Record(ctx, audit.Resource{
		Type: "account", ID: account.ID, Metadata: map[string]string{"limit": l.Name, "value": strconv.FormatInt(value, 10)},
	}))
}

// NameOf reads the name of an account by its id, "" for one that does not exist.
func (s *Service) NameOf(ctx context.Context, id string) (string, error) {
	var account Account
	if err := s.parts.Table.Get(ctx, accountKey(id), &account); err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read account: %w", err)
	}
	return account.Name, nil
}

// request describes a change made by whoever runs the installation, not by an
// operation of the API.
func (s *Service) request(account Account, action audit.Action) *audit.Request {
	return &audit.Request{
		AccountID: account.ID,
		Action:    action,
		Actor:     audit.Actor{Sub: "installation", Type: "service"},
		RequestID: s.parts.IDs.UUID(),
		Time:      s.parts.Now(),
	}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

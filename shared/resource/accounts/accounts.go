// Package accounts creates accounts and their keys, and authenticates the caller with a key (specification 5, contract 3.9).
//
// An account key is shown once, when it is created. The table contains only a hash of it. A key has 190 random bits,
// so a plain SHA-256 is sufficient: an offline guess is hopeless. A password hash would take milliseconds and
// megabytes for each request. Consumer keys use an HMAC because customers may choose them; here an HMAC would need
// the root key in functions that need it for nothing else. Keys are immutable: to change a key, create another.
//
// A key is in the table twice: by the hash of its text, for authentication, and in its account's list. One transaction
// creates both items, and one transaction deletes both. A key of a release that had no list gets its second item when
// it is used (RecordUse).
//
// Read accounts.go first (accounts), then keys.go (the keys of an account), authenticate.go (callers),
// use.go (the last use of a key), record.go (the stored form of a key) and table.go (the items).
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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Account is the owner of all other resources.
type Account struct {
	store.UnknownAttributes

	ID        string    `dynamodbav:"id"` // a UUID
	Name      string    `dynamodbav:"name"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// namePattern is the pattern of contract 1.4, with our own minimum and maximum length.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{1,62}$`)

// createAccount is the action of Create in the audit log. The API has no operation that creates an account.
const createAccount audit.Action = "account.create"

// Service creates, finds and limits accounts. It creates, lists, revokes and authenticates their keys. It is safe for
// concurrent use.
type Service struct {
	parts  installation.Parts
	cache  *cache
	counts *counts.Counts
}

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service {
	return &Service{parts: p, cache: newCache(), counts: counts.Open(p)}
}

// Create creates an account with a first key that has full access, and returns that key's text,
// which cannot be read later. Faults: Invalid for the name, Conflict for a name in use.
func (s *Service) Create(ctx context.Context, name string) (Account, string, error) {
	if !namePattern.MatchString(name) {
		return Account{}, "", fault.InvalidField("name",
			"an account's name has 2 to 63 lower-case letters, digits, hyphens and underscores and begins with a letter")
	}
	account := Account{ID: s.parts.IDs.UUID(), Name: name, CreatedOn: s.parts.Now().UTC()}
	text, key := s.newKey(account, Spec{Label: "Full access key of " + name, Permissions: auth.Full()})
	ctx = audit.WithRequest(ctx, s.request(account, createAccount))
	err := s.parts.Table.Commit(ctx, append(key.createWrites(hash(text)),
		store.Create(nameKey(name), account).
			Else(fault.New(fault.Conflict, "There is an account named %s already. Choose another name.", name)),
		store.Create(accountRecordKey(account.ID), account),
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
		return Account{},
			fault.New(fault.NotFound, "There is no account of this name. Name one that was made, or make it first.")
	}
	if err != nil {
		return Account{}, fmt.Errorf("read account: %w", err)
	}
	return account, nil
}

// limitAccount is the action in the audit log for a change of an account's own limit.
const limitAccount audit.Action = "account.limit"

// Limits returns the limits of an account. Fault: NotFound.
func (s *Service) Limits(ctx context.Context, name string) ([]counts.Status, error) {
	account, err := s.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.counts.List(ctx, account.ID)
}

// SetLimit sets an account's own value of a limit. The value 0 restores the installation's value. If the account
// already has more resources than the new value, they stay, and the account cannot create more. Faults: NotFound for
// the account; Invalid for an invalid value, and for an unknown limit or one that cannot be set per account.
func (s *Service) SetLimit(ctx context.Context, name, limit string, value int64) error {
	l, err := limits.Find(limits.PerAccount(), limit)
	if err != nil {
		return err
	}
	account, err := s.Find(ctx, name)
	if err != nil {
		return err
	}
	ctx = audit.WithRequest(ctx, s.request(account, limitAccount))
	return s.counts.Set(ctx, account.ID, l, value, audit.Record(ctx, audit.Resource{
		Type: "account", ID: account.ID, Metadata: map[string]string{"limit": l.Name, "value": strconv.FormatInt(value, 10)},
	}))
}

// NameOf returns the name of an account with an ID, or "" if the account does not exist.
func (s *Service) NameOf(ctx context.Context, id string) (string, error) {
	var account Account
	if err := s.parts.Table.Get(ctx, accountRecordKey(id), &account); err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read account: %w", err)
	}
	return account.Name, nil
}

// request returns the audit data of a change that the operator of the installation makes without an operation of the API.
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

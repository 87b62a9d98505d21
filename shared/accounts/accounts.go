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
// Read accounts.go for what is made, authenticate.go for who asks,
// table.go for where they stand in the table.
package accounts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// Account owns everything else.
type Account struct {
	ID        string    `dynamodbav:"id"` // a UUID
	Name      string    `dynamodbav:"name"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// Key is what is stored of an account key: all but its text.
type Key struct {
	ID          string           `dynamodbav:"id"`
	AccountID   string           `dynamodbav:"accountId"`
	AccountName string           `dynamodbav:"accountName"` // names never change
	Label       string           `dynamodbav:"label"`
	ExpiresOn   *time.Time       `dynamodbav:"expiresOn,omitempty"` // nil: never
	CreatedOn   time.Time        `dynamodbav:"createdOn"`
	Permissions auth.Permissions `dynamodbav:"permissions"`
}

// Spec is what a new key shall be.
type Spec struct {
	// Label names the key for people, at most 128 bytes.
	Label string
	// ExpiresOn is when it stops working, nil for never.
	ExpiresOn   *time.Time
	Permissions auth.Permissions
}

// Bounds of names and labels.
const (
	maxLabelBytes = 128
	keyIDDigits   = 24
)

// namePattern is that of contract 1.4, with bounds of our own.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{1,62}$`)

// The actions that are recorded. No operation of the API does them.
const (
	createAccount audit.Action = "account.create"
	createKey     audit.Action = "account-key.create"
)

// Service makes accounts and keys and recognises keys. It is safe for
// concurrent use.
type Service struct {
	parts installation.Parts
	cache *cache
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{parts: p, cache: newCache()} }

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
	err := s.parts.Table.Commit(ctx,
		store.Create(nameKey(name), account).
			Else(fault.New(fault.Conflict, "There is an account named %s already.", name)),
		store.Create(accountKey(account.ID), account),
		store.Create(credentialKey(hash(text)), key),
		audit.Record(ctx,
			audit.Resource{Type: "account", ID: account.ID},
			audit.Resource{Type: "account-key", ID: key.ID}),
	)
	if err != nil {
		return Account{}, "", fmt.Errorf("create account: %w", err)
	}
	return account, text, nil
}

// CreateKey makes a key of an account and answers its text, the only time it
// can be read. Faults: NotFound for the account, Invalid for the spec.
func (s *Service) CreateKey(ctx context.Context, accountName string, spec Spec) (Key, string, error) {
	if len(spec.Label) > maxLabelBytes {
		return Key{}, "", fault.InvalidField("label", "a label has at most %d bytes", maxLabelBytes)
	}
	if spec.ExpiresOn != nil && !spec.ExpiresOn.After(s.parts.Now()) {
		return Key{}, "", fault.InvalidField("expires", "the key would have expired already; name a time to come")
	}
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return Key{}, "", err
	}
	text, key := s.mint(account, spec)
	ctx = audit.With(ctx, s.request(account, createKey))
	err = s.parts.Table.Commit(ctx,
		store.Create(credentialKey(hash(text)), key),
		audit.Record(ctx, audit.Resource{Type: "account-key", ID: key.ID}))
	if err != nil {
		return Key{}, "", fmt.Errorf("create account key: %w", err)
	}
	return key, text, nil
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

// NameOf reads the name of an account by its id, "" for one that does not exist.
func (s *Service) NameOf(ctx context.Context, id string) (string, error) {
	var account Account
	if err := s.parts.Table.Get(ctx, accountKey(id), &account); err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read account: %w", err)
	}
	return account.Name, nil
}

func (s *Service) mint(account Account, spec Spec) (string, Key) {
	return credential.New(credential.AccountKey, s.parts.IDs), Key{
		ID:          s.parts.IDs.Ordered("akey", keyIDDigits),
		AccountID:   account.ID,
		AccountName: account.Name,
		Label:       spec.Label,
		ExpiresOn:   spec.ExpiresOn,
		CreatedOn:   s.parts.Now().UTC(),
		Permissions: auth.Permissions{
			Projects:     slices.Clone(spec.Permissions.Projects),
			Environments: slices.Clone(spec.Permissions.Environments),
			Scopes:       slices.Clone(spec.Permissions.Scopes),
		},
	}
}

// request describes a change made by whoever runs the installation: no API
// operation makes accounts or their keys.
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

// Package accounts creates accounts, each with its first key. For any account, it also creates, lists and revokes keys,
// and lists, sets and resets limits. The function has no public address and needs no account key: a new installation
// has none, and an operator must be able to work when keys are lost or leaked. Instead, the permissions of the platform
// decide who can invoke it: IAM in AWS. `make account` and `make account-keys` invoke it with the operator's own
// credentials.
//
// The API's operations on account keys are in functions/accountkeys. Package accounts in shared defines accounts and
// their keys. Read Handler first.
package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Function declares the events that call this function.
var Function = trigger.Function{
	Name: "accounts",
	Description: "Makes accounts, makes, lists and revokes their keys, and sets their limits, for who runs the " +
		"installation.",
	Events: []trigger.Event{{Invoked: true}},
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem,
		api.CheckItem, api.RootKey, api.CreateRootKey,
	},
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{"account-keys", "account-limits", "account-name", "root-key"},
		Writes: []store.KeyPrefix{
			"account", "account-keys", "account-limits", "account-name", "audit-new", "credential",
			"root-key",
		},
	},
	Timeout: 15 * time.Second,
}

// In is the event with which the function is called.
type In struct {
	// Action is what the function does. "" creates an account. "create-key", "list-keys" and "revoke-key" work on the
	// keys of an account. "list-limits", "set-limit" and "reset-limit" work on its limits.
	Action string `json:"do"`
	// Name is the name of the new or the existing account: 2 to 63 lower-case letters, digits, hyphens and underscores,
	// with a letter first.
	Name string `json:"name"`

	// Label is the label of a new key, and ExpiresOn is its expiry (nil for never). Scopes, Projects and Environments
	// are its permissions, in the form of the command line: all, none, or a comma-separated list of names. Empty
	// Projects and Environments mean all.
	Label        string     `json:"label"`
	ExpiresOn    *time.Time `json:"expiresOn"`
	Scopes       string     `json:"scopes"`
	Projects     string     `json:"projects"`
	Environments string     `json:"environments"`
	// ConfirmDestructive is true if a person must confirm the destructive calls that are made through MCP with the new
	// key.
	ConfirmDestructive bool `json:"confirmDestructive"`

	// ID is the ID of the key to revoke. Force revokes it even if it is the last key with full access.
	ID    string `json:"id"`
	Force bool   `json:"force"`

	// Limit is the name of a limit (package limits), and Value is its new value for the account. "reset-limit" needs no
	// value: the installation's value applies again.
	Limit string `json:"limit"`
	Value *int64 `json:"value"`
}

// Out is the result of creating an account, or of creating or revoking a key.
type Out struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Key is the text of the new key: either the account's first key, which has full access, or the requested key. The
	// text is never shown again.
	Key string `json:"key,omitempty"`
}

// KeyList is the result of "list-keys".
type KeyList struct {
	Keys []KeySummary `json:"keys"`
}

// KeySummary is a key without its text.
type KeySummary struct {
	ID           string             `json:"id"`
	Label        string             `json:"label"`
	CreatedOn    time.Time          `json:"createdOn"`
	ExpiresOn    *time.Time         `json:"expiresOn"`
	LastUsedOn   string             `json:"lastUsedOn"` // "" for never
	Scopes       []auth.Scope       `json:"scopes"`
	Projects     []string           `json:"projects"`
	Environments []environment.Kind `json:"environments"`
}

// Limits is the result of the actions on limits.
type Limits struct {
	Limits []Limit `json:"limits"`
}

// Limit is the state of a limit of an account.
type Limit struct {
	Name   string `json:"name"`
	Value  int64  `json:"value"`
	Custom bool   `json:"own"` // whether the value is the account's own
	// UpperBound is a number that the account's current use of the limit does not exceed. It is null if the function would
	// have to count to find such a number.
	UpperBound *int64 `json:"atMost"`
}

// Service creates accounts, and manages their keys and limits. Package accounts in shared implements it.
type Service interface {
	Create(ctx context.Context, name string) (accounts.Account, string, error)
	CreateKey(ctx context.Context, account string, spec accounts.Spec) (accounts.Key, string, error)
	Keys(ctx context.Context, account string) ([]accounts.Key, error)
	RevokeKey(ctx context.Context, account, id string, force bool) error
	Limits(ctx context.Context, account string) ([]counts.Status, error)
	SetLimit(ctx context.Context, account, limit string, value int64) error
}

var _ Service = (*accounts.Service)(nil)

// errInternal is the only text that a caller sees for an internal failure.
var errInternal = errors.New("that could not be done; the function's log says why, and repeating the call is safe")

// RootKey is the installation's root key. An installation without accounts has no sealed or hashed values yet. So this
// function can create the root key if it is missing. Only functions/operations also has the permission to create a root
// key, for rotations.
type RootKey interface {
	Root(ctx context.Context) ([]byte, error)
}

// Open creates the function's handler, for lambda.Start.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Restrict(Function.TableAccess)
	return probe.Handler(Handler(accounts.Open(p), p.Key, p.Log), probe.TableCheck(p.Table, Function.TableAccess)), nil
}

// Handler creates the function's handler. Only the response contains the text of a key. The log contains only the key's
// ID.
//
// If the response is lost, the account or key exists, but the text of the key is lost. Then create an account with
// another name, or revoke the key and create another.
func Handler(s Service, rootKey RootKey, log *slog.Logger) func(context.Context, In) (any, error) {
	return func(ctx context.Context, in In) (any, error) {
		out, err := dispatch(ctx, s, rootKey, log, in)
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind != fault.Internal {
			return nil, errors.New(f.Public)
		}
		if err != nil {
			log.ErrorContext(ctx, "an account or its keys could not be worked on", "do", in.Action, "error", err)
			return nil, errInternal
		}
		return out, nil
	}
}

func dispatch(ctx context.Context, s Service, rootKey RootKey, log *slog.Logger, in In) (any, error) {
	switch in.Action {
	case "":
		if _, err := rootKey.Root(ctx); err != nil {
			return nil, fmt.Errorf("the installation has no root key: %w", err)
		}
		account, key, err := s.Create(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "an account was made", "accountId", account.ID)
		return Out{ID: account.ID, Name: account.Name, Key: key}, nil
	case "create-key":
		spec, err := in.spec()
		if err != nil {
			return nil, err
		}
		key, text, err := s.CreateKey(ctx, in.Name, spec)
		if err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "an account key was made", "accountId", key.AccountID, "key", key.ID)
		return Out{ID: key.ID, Name: key.AccountName, Key: text}, nil
	case "list-keys":
		results, err := s.Keys(ctx, in.Name)
		return KeyList{Keys: api.Map(results, newKeySummary)}, err
	case "revoke-key":
		if err := s.RevokeKey(ctx, in.Name, in.ID, in.Force); err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "an account key was revoked", "key", in.ID)
		return Out{ID: in.ID, Name: in.Name}, nil
	case "list-limits":
		results, err := s.Limits(ctx, in.Name)
		return Limits{Limits: api.Map(results, newLimit)}, err
	case "set-limit", "reset-limit":
		value, err := in.limitValue()
		if err != nil {
			return nil, err
		}
		if err := s.SetLimit(ctx, in.Name, in.Limit, value); err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "a limit of an account was set", "limit", in.Limit, "value", value)
		results, err := s.Limits(ctx, in.Name)
		return Limits{Limits: api.Map(results, newLimit)}, err
	}
	return nil, fault.InvalidField("do", "is none of create-key, list-keys, revoke-key, list-limits, set-limit and "+
		"reset-limit; leave it out to make an account")
}

// spec returns the specification of a new key. Fault: Invalid.
func (in In) spec() (accounts.Spec, error) {
	var invalid fault.Fields
	out := accounts.Spec{Label: in.Label, ExpiresOn: in.ExpiresOn}
	p := &out.Permissions
	p.Confirm = in.ConfirmDestructive
	for _, field := range []struct {
		name  string
		parse func() error
	}{
		{"scopes", func() (err error) { p.Scopes, err = auth.ParseScopes(in.Scopes); return err }},
		{"projects", func() (err error) {
			p.Projects, err = deployments.ParseProjects(cmp.Or(in.Projects, "all"))
			return err
		}},
		{"environments", func() (err error) {
			p.Environments, err = auth.ParseEnvironments(cmp.Or(in.Environments, "all"))
			return err
		}},
	} {
		if err := field.parse(); err != nil {
			invalid.Add(field.name, "%s", err.Error())
		}
	}
	return out, invalid.Err()
}

// limitValue returns the new value of a limit, or 0 for the installation's value. Resets have their own action, so that
// a missing value does not remove a limit. Fault: Invalid.
func (in In) limitValue() (int64, error) {
	switch {
	case in.Action == "reset-limit" && in.Value != nil:
		return 0, fault.InvalidField("value", "is not for reset-limit, after which the installation's holds")
	case in.Action == "reset-limit":
		return 0, nil
	case in.Value == nil:
		return 0, fault.InvalidField("value",
			"is needed: what the limit shall be. reset-limit has the installation's hold again")
	}
	l, err := limits.Find(limits.PerAccount(), in.Limit)
	if err != nil {
		return 0, err
	}
	return *in.Value, l.Check(*in.Value)
}

func newLimit(s counts.Status) Limit {
	out := Limit{Name: s.Name, Value: s.Value, Custom: s.Own}
	if s.Bound >= 0 {
		out.UpperBound = &s.Bound
	}
	return out
}

func newKeySummary(k accounts.Key) KeySummary {
	p := k.Permissions
	return KeySummary{
		ID: k.ID, Label: k.Label, CreatedOn: k.CreatedOn, ExpiresOn: k.ExpiresOn, LastUsedOn: k.LastUsedOn,
		Scopes: p.Scopes, Projects: p.Projects, Environments: p.Environments,
	}
}

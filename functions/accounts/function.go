// Package accounts makes accounts, each with its first key, and makes, lists and
// revokes the keys of any account, and sets its limits. It has no public address: an installation
// without an account has nobody who could hold an account key, and one whose keys
// are lost or leaked needs somebody who is asked for none. So the platform's
// permissions say who may invoke it (`make account` and `make account-keys` do, with
// the caller's own credentials).
//
// What it is not: an operation of the API, whose operations on account keys are
// those of functions/accountkeys. What an account and its keys are stands in
// package accounts of shared; read Handler.
package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Function declares what calls this function.
var Function = trigger.Function{
	Name: "accounts",
	Does: "Makes accounts, makes, lists and revokes their keys, and sets their limits, for who runs the installation.",
	On:   []trigger.Event{{Invoked: true}},
	Uses: []api.Use{api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.RootKey, api.MakeRootKey},
	Reach: store.Reach{
		Reads:  []store.Space{"account-keys", "account-limits", "account-name", "root-key"},
		Writes: []store.Space{"account", "account-keys", "account-limits", "account-name", "audit-new", "credential", "root-key"},
	},
	Timeout: 15 * time.Second,
}

// In is what the function is called with.
type In struct {
	// Do is what to do: "" makes an account, "create-key", "list-keys" and
	// "revoke-key" are about the keys of one, "list-limits", "set-limit" and "reset-limit" about its limits.
	Do string `json:"do"`
	// Name of the account, which is to be, or which there is: 2 to 63 lower-case
	// letters, digits, hyphens and underscores.
	Name string `json:"name"`

	// Label of a new key, its ExpiresOn (nil for never) and what it may do, as the
	// command line spells it: all, none, or names with commas between them. Projects and
	// environments are all where nothing is said.
	Label        string     `json:"label"`
	ExpiresOn    *time.Time `json:"expiresOn"`
	Scopes       string     `json:"scopes"`
	Projects     string     `json:"projects"`
	Environments string     `json:"environments"`
	// ConfirmDestructive has a person confirm what the key is used for through MCP and destroys.
	ConfirmDestructive bool `json:"confirmDestructive"`

	// ID of the key to revoke, and whether to also where it is the last that may
	// everything.
	ID    string `json:"id"`
	Force bool   `json:"force"`

	// Limit is the name of a limit (package limits), Value what it shall be for the account; "reset-limit" takes none, and
	// has the account have what the installation has.
	Limit string `json:"limit"`
	Value *int64 `json:"value"`
}

// Out is what it answers about an account or a key that it has made or revoked.
type Out struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Key is the text of a new key: of the account's first one, which allows
	// everything, or of the one that was asked for. It is shown here and never again.
	Key string `json:"key,omitempty"`
}

// Listed is what it answers about the keys of an account.
type Listed struct {
	Keys []ListedKey `json:"keys"`
}

// ListedKey is a key without its text.
type ListedKey struct {
	ID           string             `json:"id"`
	Label        string             `json:"label"`
	CreatedOn    time.Time          `json:"createdOn"`
	ExpiresOn    *time.Time         `json:"expiresOn"`
	LastUsedOn   string             `json:"lastUsedOn"` // "" for never
	Scopes       []auth.Scope       `json:"scopes"`
	Projects     []string           `json:"projects"`
	Environments []environment.Kind `json:"environments"`
}

// Limits is what it answers about the limits of an account.
type Limits struct {
	Limits []Limit `json:"limits"`
}

// Limit is one of them.
type Limit struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Own   bool   `json:"own"` // whether the value is the account's own
	// AtMost is the most that there are, null where that is known only by a count.
	AtMost *int64 `json:"atMost"`
}

// Service makes accounts and looks after keys: package accounts of shared.
type Service interface {
	Create(ctx context.Context, name string) (accounts.Account, string, error)
	CreateKey(ctx context.Context, account string, spec accounts.Spec) (accounts.Key, string, error)
	Keys(ctx context.Context, account string) ([]accounts.Key, error)
	RevokeKey(ctx context.Context, account, id string, force bool) error
	Limits(ctx context.Context, account string) ([]counts.Status, error)
	SetLimit(ctx context.Context, account, limit string, value int64) error
}

var _ Service = (*accounts.Service)(nil)

// errInternal is all that a caller learns of a failure that is not theirs.
var errInternal = errors.New("that could not be done; the function's log says why, and repeating the call is safe")

// Key is the installation's root key. Nothing is sealed or hashed before there is
// an account, so that this function sees to it that the key is there, and no
// other has to be allowed to make one.
type Key interface {
	Root(ctx context.Context) ([]byte, error)
}

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Within(Function.Reach)
	return probe.Handler(Handler(accounts.Open(p), p.Key, p.Log), probe.Reads(p.Table, Function.Reach)), nil
}

// Handler makes the function's handler. A key goes to the caller alone: what is
// logged of a call is ids.
//
// A call whose answer is lost leaves an account or a key whose text nobody knows:
// make another account under another name, or revoke the key and make another.
func Handler(s Service, root Key, log *slog.Logger) func(context.Context, In) (any, error) {
	return func(ctx context.Context, in In) (any, error) {
		out, err := do(ctx, s, root, log, in)
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind != fault.Internal {
			return nil, errors.New(f.Public)
		}
		if err != nil {
			log.ErrorContext(ctx, "an account or its keys could not be worked on", "do", in.Do, "error", err)
			return nil, errInternal
		}
		return out, nil
	}
}

func do(ctx context.Context, s Service, root Key, log *slog.Logger, in In) (any, error) {
	switch in.Do {
	case "":
		if _, err := root.Root(ctx); err != nil {
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
		found, err := s.Keys(ctx, in.Name)
		return Listed{Keys: api.Each(found, listed)}, err
	case "revoke-key":
		if err := s.RevokeKey(ctx, in.Name, in.ID, in.Force); err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "an account key was revoked", "key", in.ID)
		return Out{ID: in.ID, Name: in.Name}, nil
	case "list-limits":
		found, err := s.Limits(ctx, in.Name)
		return Limits{Limits: api.Each(found, limit)}, err
	case "set-limit", "reset-limit":
		value, err := in.limitValue()
		if err != nil {
			return nil, err
		}
		if err := s.SetLimit(ctx, in.Name, in.Limit, value); err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "a limit of an account was set", "limit", in.Limit, "value", value)
		found, err := s.Limits(ctx, in.Name)
		return Limits{Limits: api.Each(found, limit)}, err
	}
	return nil, fault.InvalidField("do", "is none of create-key, list-keys, revoke-key, list-limits, set-limit and reset-limit; leave it out to make an account")
}

// spec reads what a new key shall be. Fault: Invalid.
func (in In) spec() (accounts.Spec, error) {
	var wrong fault.Fields
	out := accounts.Spec{Label: in.Label, ExpiresOn: in.ExpiresOn}
	p := &out.Permissions
	p.Confirm = in.ConfirmDestructive
	for _, field := range []struct {
		name string
		read func() error
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
		if err := field.read(); err != nil {
			wrong.Add(field.name, "%s", err.Error())
		}
	}
	return out, wrong.Err()
}

// limitValue is what a limit shall be, 0 for what the installation has: it is asked for in a word of its own, so that a value
// that was forgotten, or none at all, ends no limit. Fault: Invalid.
func (in In) limitValue() (int64, error) {
	switch {
	case in.Do == "reset-limit" && in.Value != nil:
		return 0, fault.InvalidField("value", "is not for reset-limit, after which the installation's holds")
	case in.Do == "reset-limit":
		return 0, nil
	case in.Value == nil:
		return 0, fault.InvalidField("value", "is needed: what the limit shall be. reset-limit has the installation's hold again")
	}
	l, err := limits.Find(limits.Own(), in.Limit)
	if err != nil {
		return 0, err
	}
	return *in.Value, l.Check(*in.Value)
}

func limit(s counts.Status) Limit {
	out := Limit{Name: s.Name, Value: s.Value, Own: s.Own}
	if s.Bound >= 0 {
		out.AtMost = &s.Bound
	}
	return out
}

func listed(k accounts.Key) ListedKey {
	p := k.Permissions
	return ListedKey{
		ID: k.ID, Label: k.Label, CreatedOn: k.CreatedOn, ExpiresOn: k.ExpiresOn, LastUsedOn: k.LastUsedOn,
		Scopes: p.Scopes, Projects: p.Projects, Environments: p.Environments,
	}
}

// Package accounts makes accounts, each with its first key. It has no public
// address: an installation without an account has nobody who could hold an
// account key, so the platform's permissions say who may invoke it (`make account`
// does, with the caller's own credentials).
//
// What it is not: an operation of the API, which has none that makes accounts.
// What an account is stands in package accounts of shared; read Handler.
package accounts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Function declares what calls this function.
var Function = trigger.Function{
	Name:    "accounts",
	Does:    "Makes an account with a first key, for who runs the installation.",
	On:      []trigger.Event{{Invoked: true}},
	Uses:    []api.Use{api.PutItem, api.RootKey, api.MakeRootKey},
	Timeout: 15 * time.Second,
}

// In is what the function is called with.
type In struct {
	// Name of the account to be: 2 to 63 lower-case letters, digits, hyphens
	// and underscores.
	Name string `json:"name"`
}

// Out is what it answers.
type Out struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Key is the account's first key, which allows everything. It is shown
	// here and never again.
	Key string `json:"key"`
}

// Service makes accounts: package accounts of shared.
type Service interface {
	Create(ctx context.Context, name string) (accounts.Account, string, error)
}

var _ Service = (*accounts.Service)(nil)

// errInternal is all that a caller learns of a failure that is not theirs.
var errInternal = errors.New("the account could not be made; the function's log says why, and repeating the call is safe")

// Key is the installation's root key. Nothing is sealed or hashed before there is
// an account, so that this function sees to it that the key is there, and no
// other has to be allowed to make one.
type Key interface {
	Root(ctx context.Context) ([]byte, error)
}

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) { return Handler(accounts.Open(p), p.Key, p.Log), nil }

// Handler makes the function's handler. The account's
// key goes to the caller alone: what is logged of a call is the account's id.
//
// A call whose answer is lost leaves an account whose key nobody knows: make
// another account under another name.
func Handler(s Service, root Key, log *slog.Logger) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		if _, err := root.Root(ctx); err != nil {
			log.ErrorContext(ctx, "the installation has no root key", "error", err)
			return Out{}, errInternal
		}
		account, key, err := s.Create(ctx, in.Name)
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind != fault.Internal {
			return Out{}, errors.New(f.Public)
		}
		if err != nil {
			log.ErrorContext(ctx, "an account could not be made", "error", err)
			return Out{}, errInternal
		}
		log.InfoContext(ctx, "an account was made", "accountId", account.ID)
		return Out{ID: account.ID, Name: account.Name, Key: key}, nil
	}
}

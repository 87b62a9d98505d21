package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
)

// Spec is what a new key shall be.
type Spec struct {
	// Label names the key for people, at most MaxLabelBytes of text.
	Label string
	// ExpiresOn is when it stops working, nil for never.
	ExpiresOn   *time.Time
	Permissions auth.Permissions
}

const (
	// MaxLabelBytes bounds a label.
	MaxLabelBytes = 128
	keyIDDigits   = 24
	// maxKeyIDBytes is more than any id has.
	maxKeyIDBytes = 256
)

// The actions that are recorded where no operation of the API has its own.
const (
	createKey audit.Action = "account-key.create"
	deleteKey audit.Action = "account-key.delete"
)

var (
	errNoKey   = fault.Missing("account key")
	errLastKey = fault.New(fault.Conflict, "This is the last key of the account that may everything, and without one nobody can make another over the API. "+
		"Make another first, or ask again with force (?force=true, --force).")
)

// CreateKey makes a key of an account for whoever runs the installation, and
// answers its text, the only time it can be read. Faults: NotFound for the
// account, Invalid for the spec, the refusal of limits.AccountKeys.
func (s *Service) CreateKey(ctx context.Context, accountName string, spec Spec) (Key, string, error) {
	if err := s.check(spec); err != nil {
		return Key{}, "", err
	}
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return Key{}, "", err
	}
	return s.create(audit.With(ctx, s.request(account, createKey)), account, spec)
}

// CreateKeyFor is CreateKey for the bearer of a key of the account. A key makes
// none that may more than itself, or for longer. Faults: Forbidden for that, Invalid
// for the spec, the refusal of limits.AccountKeys.
func (s *Service) CreateKeyFor(ctx context.Context, by auth.Principal, spec Spec) (Key, string, error) {
	if err := s.check(spec); err != nil {
		return Key{}, "", err
	}
	over := by.Permissions.Lacks(spec.Permissions)
	if end := by.ExpiresOn; end != nil && (spec.ExpiresOn == nil || spec.ExpiresOn.After(*end)) {
		over = append(over, "expiresOn")
	}
	if len(over) > 0 {
		return Key{}, "", fault.New(fault.Forbidden, "A key makes none that may more than itself, or for longer. Ask for less in %s, or use a key that has it.", strings.Join(over, ", "))
	}
	return s.create(ctx, Account{ID: by.AccountID, Name: by.AccountName}, spec, stands(by.AccountID, by.KeyID))
}

// stands is the check that a key which makes or revokes others is there itself when
// that is committed. It may have been revoked since it was let pass, or be believed
// here still (believed): whoever has stolen it would outlive its revocation by a
// key that they make meanwhile. Fault: Unauthenticated.
func stands(accountID, keyID string) store.Write {
	return store.Check(keyKey(accountID, keyID), store.Exists()).Else(refused())
}

func (s *Service) create(ctx context.Context, account Account, spec Spec, with ...store.Write) (Key, string, error) {
	var text string
	var key Key
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		tally, err := s.counts.Load(ctx, account.ID, limits.AccountKeys)
		if err != nil {
			return err
		}
		room, err := tally.Take(ctx, 1, func(ctx context.Context) (int64, error) {
			n, err := s.parts.Table.Count(ctx, store.Query{
				PK: keyPartition(account.ID), Unchecked: "who makes a key raises the account's bound, whose turn the commit asks for",
			})
			return int64(n), err
		})
		if err != nil {
			return err
		}
		text, key = s.mint(account, spec)
		writes := append(slices.Clone(with), audit.Record(ctx, key.resource()), room)
		return s.parts.Table.Commit(ctx, append(writes, key.creation(hash(text))...)...)
	})
	if err != nil {
		return Key{}, "", fmt.Errorf("create account key: %w", err)
	}
	return key, text, nil
}

func (s *Service) check(spec Spec) error {
	var wrong fault.Fields
	if len(spec.Label) > MaxLabelBytes {
		wrong.Add("label", "a label has at most %d bytes", MaxLabelBytes)
	}
	// Lists show labels in lines, beside what a key may: none turns its line around.
	controls := func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) }
	if !utf8.ValidString(spec.Label) || strings.ContainsFunc(spec.Label, controls) {
		wrong.Add("label", "has to be text without control characters")
	}
	if spec.ExpiresOn != nil && !spec.ExpiresOn.After(s.parts.Now()) {
		wrong.Add("expiresOn", "the key would have expired already; name a time to come")
	}
	return wrong.Err()
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
			Confirm:      spec.Permissions.Confirm,
		},
	}
}

// Keys lists the keys of an account, the newest first. Fault: NotFound for the
// account.
func (s *Service) Keys(ctx context.Context, accountName string) ([]Key, error) {
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return nil, err
	}
	return s.keys(ctx, account.ID, anyKey)
}

// KeysFor lists the keys that the bearer of a key sees, the newest first: its own
// and those that may no more than it does.
func (s *Service) KeysFor(ctx context.Context, by auth.Principal) ([]Key, error) {
	return s.keys(ctx, by.AccountID, seenBy(by))
}

func anyKey(Key) bool { return true }

// seenBy is which keys the bearer of a key sees, and so which it may revoke. A
// key for a single job is no way to take more powerful ones from others.
func seenBy(by auth.Principal) func(Key) bool {
	return func(k Key) bool { return k.ID == by.KeyID || len(by.Permissions.Lacks(k.Permissions)) == 0 }
}

func (s *Service) keys(ctx context.Context, accountID string, seen func(Key) bool) ([]Key, error) {
	q := store.Query{
		PK: keyPartition(accountID), Descending: true,
		Unchecked: "a list decides nothing; a revocation checks the key that it leaves behind",
	}
	var out []Key
	err := store.Visit(ctx, s.parts.Table, q, func(e entry) bool {
		if k := e.key(); seen(k) {
			out = append(out, k)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of an account: %w", err)
	}
	return out, nil
}

// RevokeKey revokes a key of an account for whoever runs the installation. The
// last one that may everything takes force. Faults: NotFound for the account and
// the key, Conflict for the last one.
func (s *Service) RevokeKey(ctx context.Context, accountName, id string, force bool) error {
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return err
	}
	return s.revoke(audit.With(ctx, s.request(account, deleteKey)), account.ID, "", anyKey, id, force)
}

// RevokeKeyFor is RevokeKey for the bearer of a key of the account, of one that it sees.
func (s *Service) RevokeKeyFor(ctx context.Context, by auth.Principal, id string, force bool) error {
	return s.revoke(ctx, by.AccountID, by.KeyID, seenBy(by), id, force)
}

// revoke removes a key, for the key by, "" for whoever runs the installation. No
// process believes it for longer than believed.
func (s *Service) revoke(ctx context.Context, accountID, by string, seen func(Key) bool, id string, force bool) error {
	if id == "" || len(id) > maxKeyIDBytes {
		return errNoKey // which the table could not be asked for
	}
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		var e entry
		switch err := s.parts.Table.Get(ctx, keyKey(accountID, id), &e); {
		case errors.Is(err, store.ErrNotFound) || err == nil && !seen(e.key()):
			return errNoKey
		case err != nil:
			return fmt.Errorf("read account key: %w", err)
		}
		k := e.key()
		writes := []store.Write{
			store.Delete(keyKey(accountID, id)).If(store.Exists()).Else(store.ErrStale),
			store.Delete(credentialKey(e.Hash)),
			audit.Record(ctx, k.resource()),
		}
		if by != "" && by != id {
			writes = append(writes, stands(accountID, by))
		}
		if now := s.parts.Now(); !force && k.Permissions.IsFull() && !k.expired(now) {
			// Two revocations of the last two at once: each checks that the key which it
			// leaves behind is there, so that one of them fails, and finds no other then.
			other, err := s.lastingFull(ctx, accountID, id, now)
			if err != nil {
				return err
			}
			if other.ID != by {
				writes = append(writes, store.Check(keyKey(accountID, other.ID), store.Exists()).Else(store.ErrStale))
			}
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
}

// lastingFull finds the key that may everything for longest, beside the one with
// an id. Fault: Conflict for none.
func (s *Service) lastingFull(ctx context.Context, accountID, id string, now time.Time) (Key, error) {
	full, err := s.keys(ctx, accountID, func(k Key) bool { return k.ID != id && k.Permissions.IsFull() && !k.expired(now) })
	if err != nil {
		return Key{}, err
	}
	if len(full) == 0 {
		return Key{}, errLastKey
	}
	ends := func(k Key) int64 {
		if k.ExpiresOn == nil {
			return math.MaxInt64
		}
		return k.ExpiresOn.UnixMilli()
	}
	return slices.MaxFunc(full, func(a, b Key) int { return cmp.Compare(ends(a), ends(b)) }), nil
}

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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// Spec is the input for a new key.
type Spec struct {
	// Label is the name of the key for people, at most MaxLabelBytes of text.
	Label string
	// ExpiresOn is the time when the key expires, nil for never.
	ExpiresOn   *time.Time
	Permissions auth.Permissions
}

const (
	// MaxLabelBytes is the maximum length of a label.
	MaxLabelBytes = 128
	keyIDDigits   = 24
	// maxKeyIDBytes is more than the length of any id.
	maxKeyIDBytes = 256
)

// The actions in the audit log for changes without an operation of the API.
const (
	createKey audit.Action = "account-key.create"
	deleteKey audit.Action = "account-key.delete"
)

var (
	errNoKey   = fault.Missing("account key")
	errLastKey = fault.New(fault.Conflict, "This is the last key of the account that may everything, and without one "+
		"nobody can make another over the API. "+
		"Make another first, or ask again with force (?force=true, --force).")
)

// CreateKey creates a key of an account for the operator of the installation. It returns the key's text, which
// cannot be read later. Faults: NotFound for the account, Invalid for the spec, the refusal of limits.AccountKeys.
func (s *Service) CreateKey(ctx context.Context, accountName string, spec Spec) (Key, string, error) {
	if err := s.check(spec); err != nil {
		return Key{}, "", err
	}
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return Key{}, "", err
	}
	return s.create(audit.WithRequest(ctx, s.request(account, createKey)), account, spec)
}

// CreateKeyFor creates a key in the account of the caller. Faults: Forbidden if the new key would have a permission that
// the caller's key lacks, or expire later than the caller's key; Invalid for the spec; Unauthenticated if the caller's
// key has been revoked; the refusal of limits.AccountKeys.
func (s *Service) CreateKeyFor(ctx context.Context, caller auth.Principal, spec Spec) (Key, string, error) {
	if err := s.check(spec); err != nil {
		return Key{}, "", err
	}
	exceeded := caller.Permissions.MissingFields(spec.Permissions)
	if expiresOn := caller.ExpiresOn; expiresOn != nil && (spec.ExpiresOn == nil || spec.ExpiresOn.After(*expiresOn)) {
		exceeded = append(exceeded, "expiresOn")
	}
	if len(exceeded) > 0 {
		return Key{}, "", fault.New(fault.Forbidden, "A key makes none that may more than itself, or for longer. Ask for "+
			"less in %s, or use a key that has it.", strings.Join(exceeded, ", "))
	}
	return s.create(ctx, Account{ID: caller.AccountID, Name: caller.AccountName}, spec,
		checkKeyExists(caller.AccountID, caller.KeyID))
}

// checkKeyExists returns the check that a key which creates or revokes others still exists at the commit. It may have
// been revoked after it was authenticated, or may still be cached here (cacheTTL). Without the check, a thief could use
// the revoked key in that time to create another one. Fault: Unauthenticated.
func checkKeyExists(accountID, keyID string) store.Write {
	return store.Check(entryKey(accountID, keyID), store.Exists()).Else(unauthenticatedFault())
}

func (s *Service) create(ctx context.Context, account Account, spec Spec, checks ...store.Write) (Key, string, error) {
	var text string
	var key Key
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		counter, err := s.counts.Load(ctx, account.ID, limits.AccountKeys)
		if err != nil {
			return err
		}
		reservation, err := counter.Reserve(ctx, 1, func(ctx context.Context) (int64, error) {
			n, err := s.parts.Table.Count(ctx, store.Query{
				PK:        entryPartition(account.ID),
				Unchecked: "each creation also changes the account's counter, and the commit checks the counter's revision",
			})
			return int64(n), err
		})
		if err != nil {
			return err
		}
		text, key = s.newKey(account, spec)
		writes := append(slices.Clone(checks), audit.Record(ctx, key.resource()), reservation)
		return s.parts.Table.Commit(ctx, append(writes, key.createWrites(hash(text))...)...)
	})
	if err != nil {
		return Key{}, "", fmt.Errorf("create account key: %w", err)
	}
	return key, text, nil
}

func (s *Service) check(spec Spec) error {
	var invalid fault.Fields
	if len(spec.Label) > MaxLabelBytes {
		invalid.Add("label", "a label has at most %d bytes", MaxLabelBytes)
	}
	// Lists show a label in the same line as the permissions of its key. A label must not change that line's direction.
	isControl := func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) }
	if !utf8.ValidString(spec.Label) || strings.ContainsFunc(spec.Label, isControl) {
		invalid.Add("label", "has to be text without control characters")
	}
	if spec.ExpiresOn != nil && !spec.ExpiresOn.After(s.parts.Now()) {
		invalid.Add("expiresOn", "the key would have expired already; name a time to come")
	}
	return invalid.Err()
}

func (s *Service) newKey(account Account, spec Spec) (string, Key) {
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

// Keys returns the keys of an account, newest first. Fault: NotFound for the account.
func (s *Service) Keys(ctx context.Context, accountName string) ([]Key, error) {
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return nil, err
	}
	return s.keys(ctx, account.ID, anyKey)
}

// KeysFor returns the keys that the caller sees, newest first: the caller's own key, and all keys that have no
// permission that the caller's key lacks.
func (s *Service) KeysFor(ctx context.Context, caller auth.Principal) ([]Key, error) {
	return s.keys(ctx, caller.AccountID, visibleTo(caller))
}

func anyKey(Key) bool { return true }

// visibleTo returns a filter that accepts the keys that the caller sees and may revoke. A key for a single purpose must
// not allow its bearer to revoke more powerful keys.
func visibleTo(caller auth.Principal) func(Key) bool {
	return func(k Key) bool {
		return k.ID == caller.KeyID || len(caller.Permissions.MissingFields(k.Permissions)) == 0
	}
}

func (s *Service) keys(ctx context.Context, accountID string, visible func(Key) bool) ([]Key, error) {
	q := store.Query{
		PK: entryPartition(accountID), Descending: true,
		Unchecked: "a list changes nothing, and a revocation checks at its commit that the other full key exists",
	}
	var out []Key
	err := store.Visit(ctx, s.parts.Table, q, func(e entry) bool {
		if k := e.key(); visible(k) {
			out = append(out, k)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of an account: %w", err)
	}
	return out, nil
}

// RevokeKey revokes a key of an account for the operator of the installation. The last key with full access is
// only revoked if force is true. Faults: NotFound for the account and the key, Conflict for the last key.
func (s *Service) RevokeKey(ctx context.Context, accountName, id string, force bool) error {
	account, err := s.Find(ctx, accountName)
	if err != nil {
		return err
	}
	return s.revoke(audit.WithRequest(ctx, s.request(account, deleteKey)), account.ID, "", anyKey, id, force)
}

// RevokeKeyFor revokes a key that the caller sees, like RevokeKey. Another fault is Unauthenticated if the caller's own
// key has been revoked.
func (s *Service) RevokeKeyFor(ctx context.Context, caller auth.Principal, id string, force bool) error {
	return s.revoke(ctx, caller.AccountID, caller.KeyID, visibleTo(caller), id, force)
}

// revoke deletes a key. callerKeyID is the ID of the key that requests the deletion, or "" for the operator of the
// installation. Each process accepts the deleted key for at most cacheTTL.
func (s *Service) revoke(
	ctx context.Context, accountID, callerKeyID string, visible func(Key) bool, id string, force bool,
) error {
	if id == "" || len(id) > maxKeyIDBytes {
		return errNoKey // such an id is not a valid table key
	}
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		var e entry
		switch err := s.parts.Table.Get(ctx, entryKey(accountID, id), &e); {
		case errors.Is(err, store.ErrNotFound) || err == nil && !visible(e.key()):
			return errNoKey
		case err != nil:
			return fmt.Errorf("read account key: %w", err)
		}
		k := e.key()
		writes := []store.Write{
			store.Delete(entryKey(accountID, id)).If(store.Exists()).Else(store.ErrStale),
			store.Delete(credentialKey(e.Hash)),
			audit.Record(ctx, k.resource()),
		}
		if callerKeyID != "" && callerKeyID != id {
			writes = append(writes, checkKeyExists(accountID, callerKeyID))
		}
		if now := s.parts.Now(); !force && k.Permissions.IsFull() && !k.expired(now) {
			// Two concurrent revocations may delete the last two full keys. Each revocation checks at its commit that
			// another full key still exists. So one of them fails, and its retry finds no other key.
			other, err := s.longestLivedFullKey(ctx, accountID, id, now)
			if err != nil {
				return err
			}
			if other.ID != callerKeyID {
				writes = append(writes, store.Check(entryKey(accountID, other.ID), store.Exists()).Else(store.ErrStale))
			}
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
}

// longestLivedFullKey returns the key with full access that expires last, except for the key with this ID. Fault:
// Conflict if there is no other key with full access.
func (s *Service) longestLivedFullKey(ctx context.Context, accountID, id string, now time.Time) (Key, error) {
	full, err := s.keys(ctx, accountID, func(k Key) bool {
		return k.ID != id && k.Permissions.IsFull() && !k.expired(now)
	})
	if err != nil {
		return Key{}, err
	}
	if len(full) == 0 {
		return Key{}, errLastKey
	}
	expiry := func(k Key) int64 {
		if k.ExpiresOn == nil {
			return math.MaxInt64
		}
		return k.ExpiresOn.UnixMilli()
	}
	return slices.MaxFunc(full, func(a, b Key) int { return cmp.Compare(expiry(a), expiry(b)) }), nil
}

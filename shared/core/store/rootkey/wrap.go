package rootkey

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// An installation changes to another KMS key in two steps. After AddKMSKey both KMS keys unwrap its root key. So some
// functions can already be deployed with the new KMS key while others still use the old KMS key. After KeepOnlyKMSKey
// the old KMS key is not needed any more. The root key itself does not change, and sealed data is not touched.

var errRewrapping = fault.New(fault.Conflict, "The installation is going over to another KMS key, and nothing was "+
	"changed. Finish that first (rewrap-root-key --finish), then rotate.")

// ErrSameKey is the error of AddKMSKey if both names identify the same KMS key.
var ErrSameKey = errors.New(
	"that KMS key wraps the root key already, and nothing was changed: name another one by --to")

// AddKMSKey wraps the root key with a second KMS key, toID, in addition to the first, keyID. It can be repeated.
// by has the operator and the time for the history. AddKMSKey returns ErrSameKey, ErrNoRootKey, or another error while
// the root key is being rotated. Fault: Conflict if there is already another second KMS key than toID.
func AddKMSKey(ctx context.Context, client EncryptClient, keyID, toID string, table *store.Table, by Initiator) error {
	return table.RunInTx(ctx, func(ctx context.Context) error {
		return addKMSKey(detached(ctx), client, keyID, toID, table, by)
	})
}

// Initiator has the name of the operator who started a change of the KMS key, and the time of the start.
type Initiator struct {
	By string
	At time.Time
}

// event returns the write that creates the history entry of a change.
func (i Initiator) event(kind string, number int, from, to string) store.Write {
	e := Event{
		Kind: kind, By: printableName(i.By), Number: max(1, number), From: from, To: to, BeganOn: store.Instant(i.At),
	}
	return store.Put(e.key(kind), e)
}

func addKMSKey(ctx context.Context, client EncryptClient, keyID, toID string, table *store.Table, by Initiator) error {
	if keyIDOf(keyID) == keyIDOf(toID) {
		return ErrSameKey
	}
	r, err := readForRewrap(ctx, table)
	if err != nil {
		return err
	}
	key, err := wrapper{client, keyID}.Unwrap(ctx, r.Wrapped)
	if err != nil {
		return fmt.Errorf("unwrap the root key by the KMS key %s: %w", keyID, err)
	}
	if r.WrappedAlternate != nil {
		if unwrapped, err := (wrapper{client, toID}).Unwrap(ctx, r.WrappedAlternate); err == nil &&
			subtle.ConstantTimeCompare(unwrapped, key) == 1 {
			return nil
		}
		return errRewrapping
	}
	after := r
	if after.WrappedAlternate, err = wrap(ctx, client, toID, key); err != nil {
		return err
	}
	return table.Commit(ctx, r.replaceWith(after, true), by.event(KMSKeyAdded, r.Number, keyID, toID))
}

// KeepOnlyKMSKey removes the first KMS key, so that only the second KMS key, toID, wraps the root key. It can be
// repeated. Processes that use the first KMS key lose the root key at their next refresh, within an hour. So deploy all
// processes with the second KMS key before you call KeepOnlyKMSKey. It returns ErrNoRootKey if there is no root key. It
// also returns an error while the root key is being rotated, and if the KMS key toID does not unwrap the root key.
func KeepOnlyKMSKey(ctx context.Context, client EncryptClient, toID string, table *store.Table, by Initiator) error {
	return table.RunInTx(ctx, func(ctx context.Context) error {
		return keepOnlyKMSKey(detached(ctx), client, toID, table, by)
	})
}

func keepOnlyKMSKey(ctx context.Context, client EncryptClient, toID string, table *store.Table, by Initiator) error {
	r, err := readForRewrap(ctx, table)
	if err != nil {
		return err
	}
	wrapped := r.WrappedAlternate
	if wrapped == nil {
		wrapped = r.Wrapped
	}
	if _, err := (wrapper{client, toID}).Unwrap(ctx, wrapped); err != nil {
		return fmt.Errorf("the KMS key %s does not unwrap the root key, and nothing was changed: begin with "+
			"rewrap-root-key, without --finish: %w", toID, err)
	}
	if r.WrappedAlternate == nil {
		return nil
	}
	after := r
	after.Wrapped, after.WrappedAlternate = r.WrappedAlternate, nil
	return table.Commit(ctx, r.replaceWith(after, true), by.event(KMSKeyRemoved, r.Number, "", toID))
}

// keyIDOf returns the id of a KMS key from its id or ARN.
func keyIDOf(keyID string) string { return keyID[strings.LastIndexByte(keyID, '/')+1:] }

// readForRewrap reads the record of the root key. It returns ErrNoRootKey
// if there is no record, and an error during a rotation of the root key.
func readForRewrap(ctx context.Context, table *store.Table) (rootKeyRecord, error) {
	r, exists, err := keyStore{table: table}.record(ctx)
	switch {
	case err != nil:
		return r, fmt.Errorf("read the wrapped root key: %w", err)
	case !exists:
		return r, ErrNoRootKey
	case r.Other != nil || r.status().Rotating():
		return r, errors.New("the root key is being rotated, and nothing was changed: wait for the rotation's end")
	}
	return r, nil
}

// CheckRegion returns an error for the ARN of a KMS key in another region than the
// installation's: no function of the installation can reach it.
func CheckRegion(keyID, region string) error {
	const regionIndex = 3 // arn:aws:kms:REGION:account:key/id
	if parts := strings.Split(keyID, ":"); len(parts) > regionIndex && parts[0] == "arn" && parts[regionIndex] != region {
		return fmt.Errorf("the KMS key %s is of the region %s, and the installation of %s: name a key of that one, such as "+
			"the replica of a multi-Region key", keyID, parts[regionIndex], region)
	}
	return nil
}

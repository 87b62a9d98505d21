package rootkey

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// An installation goes over to another KMS key in two steps. After WrapAlso both keys unwrap its root key, so that functions
// are deployed with the new one while others run with the old one. After WrapOnly the old one is of no use any more.
// The root key stays what it is: what was sealed is not touched.

var errGoingOver = fault.New(fault.Conflict, "The installation is going over to another KMS key, and nothing was changed. Finish that first (rewrap-root-key --finish), then rotate.")

// ErrSameKey is what WrapAlso answers where both names are of one KMS key.
var ErrSameKey = errors.New("that KMS key wraps the root key already, and nothing was changed: name another one by --to")

// WrapAlso has a second KMS key wrap the root key beside the first. It may be repeated. Conflict is the fault where
// a rotation goes on, or another second key is there. The history says who asked for it, and when.
func WrapAlso(ctx context.Context, client Mover, keyID, toID string, table *store.Table, by Asked) error {
	return table.Again(ctx, func(ctx context.Context) error { return wrapAlso(apart(ctx), client, keyID, toID, table, by) })
}

// Asked is who has something done to the root key, and when.
type Asked struct {
	By string
	On time.Time
}

// event is what the history has of it.
func (a Asked) event(kind string, number int, from, to string) store.Write {
	e := Event{Kind: kind, By: asked(a.By), Number: max(1, number), From: from, To: to, BeganOn: store.Instant(a.On)}
	return store.Put(e.at(kind), e)
}

func wrapAlso(ctx context.Context, client Mover, keyID, toID string, table *store.Table, by Asked) error {
	if bare(keyID) == bare(toID) {
		return ErrSameKey
	}
	r, err := wrapping(ctx, table)
	if err != nil {
		return err
	}
	key, err := wrapper{client, keyID}.Unwrap(ctx, r.Wrapped)
	if err != nil {
		return fmt.Errorf("unwrap the root key by the KMS key %s: %w", keyID, err)
	}
	if r.Also != nil {
		if also, err := (wrapper{client, toID}).Unwrap(ctx, r.Also); err == nil && subtle.ConstantTimeCompare(also, key) == 1 {
			return nil
		}
		return errGoingOver
	}
	after := r
	if after.Also, err = wrap(ctx, client, toID, key); err != nil {
		return err
	}
	return table.Commit(ctx, r.becomes(after, true), by.event(Wrapped, r.Number, keyID, toID))
}

// WrapOnly leaves the root key wrapped by the second KMS key alone. It may be repeated. Processes that run with the first
// one know no root key from their next look on, within an hour: deploy them with the second one before.
func WrapOnly(ctx context.Context, client Mover, toID string, table *store.Table, by Asked) error {
	return table.Again(ctx, func(ctx context.Context) error { return wrapOnly(apart(ctx), client, toID, table, by) })
}

func wrapOnly(ctx context.Context, client Mover, toID string, table *store.Table, by Asked) error {
	r, err := wrapping(ctx, table)
	if err != nil {
		return err
	}
	wrapped := r.Also
	if wrapped == nil {
		wrapped = r.Wrapped
	}
	if _, err := (wrapper{client, toID}).Unwrap(ctx, wrapped); err != nil {
		return fmt.Errorf("the KMS key %s does not unwrap the root key, and nothing was changed: begin with rewrap-root-key, without --finish: %w", toID, err)
	}
	if r.Also == nil {
		return nil
	}
	after := r
	after.Wrapped, after.Also = r.Also, nil
	return table.Commit(ctx, r.becomes(after, true), by.event(Unwrapped, r.Number, "", toID))
}

// bare is the id of a KMS key that is named by it or by its ARN.
func bare(keyID string) string { return keyID[strings.LastIndexByte(keyID, '/')+1:] }

// wrapping reads the record of an installation whose root key is not rotated.
func wrapping(ctx context.Context, table *store.Table) (rootKeyRecord, error) {
	r, there, err := keyStore{table: table}.record(ctx)
	switch {
	case err != nil:
		return r, fmt.Errorf("read the wrapped root key: %w", err)
	case !there:
		return r, ErrNone
	case r.Other != nil || r.status().Rotating():
		return r, errors.New("the root key is being rotated, and nothing was changed: wait for the rotation's end")
	}
	return r, nil
}

// OfRegion refuses the ARN of a KMS key of another region than the installation's, which no function of it reaches.
func OfRegion(keyID, region string) error {
	const regionAt = 3 // arn:aws:kms:REGION:account:key/id
	if parts := strings.Split(keyID, ":"); len(parts) > regionAt && parts[0] == "arn" && parts[regionAt] != region {
		return fmt.Errorf("the KMS key %s is of the region %s, and the installation of %s: name a key of that one, such as the replica of a multi-Region key", keyID, parts[regionAt], region)
	}
	return nil
}

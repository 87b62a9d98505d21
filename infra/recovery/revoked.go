package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// findRevived returns the credentials that are valid in the restored table, but are missing in the old table or expire
// earlier there. restored and before are the surveys of the two tables. These credentials were revoked, rolled or
// deleted since the moment. It leaves out a tunnel that was changed in the restored table after the moment, because an
// earlier run has rotated its token.
func (w *work) findRevived(restored, before survey, moment time.Time) (out []credential) {
	now := w.now()
	for key, c := range restored.credentials {
		if c.expiresOn != nil && !c.expiresOn.After(now) {
			continue
		}
		if c.kind == tunnelToken && restored.tunnelChangedAt[c.id].After(moment) {
			continue
		}
		old, exists := before.credentials[key]
		endsSooner := exists && old.expiresOn != nil && (c.expiresOn == nil || old.expiresOn.Before(*c.expiresOn))
		switch {
		case !exists:
			out = append(out, c)
		case endsSooner:
			c.oldExpiry = old.expiresOn
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b credential) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.accountID, b.accountID), cmp.Compare(a.owner, b.owner))
	})
	return out
}

// errSeparateRotations is the error of normalizeHashes if the hashes of the two tables cannot be compared.
var errSeparateRotations = errors.New("the root keys of both tables were rotated apart, so that nobody knows which " +
	"keys were revoked since: they open what they opened then. REVIVED=keep goes on with that")

// normalizeHashes converts the hashes of API keys and tunnel tokens in surveys, so that those of both tables are
// comparable. restored and before are the installations that use the restored and the old table. A rotation of the root
// key since the moment changes these hashes. It returns errSeparateRotations if neither table's root key descends from
// the other's.
func normalizeHashes(ctx context.Context, restored, before installation.Parts, surveys ...survey) error {
	from, err := rootKeysOf(ctx, restored)
	if errors.Is(err, rootkey.ErrNoRootKey) {
		return nil // no credential has a hash
	}
	if err != nil {
		return fmt.Errorf("open the root key of the restored table: %w", err)
	}
	to, err := rootKeysOf(ctx, before)
	switch {
	case errors.Is(err, rootkey.ErrNoRootKey):
		return errSeparateRotations
	case err != nil:
		return fmt.Errorf("open the root key of the table of before: %w", err)
	}
	newest := before
	descends, err := to.Primary().DescendsFrom(from.Primary())
	if err == nil && !descends {
		newest = restored
		descends, err = from.Primary().DescendsFrom(to.Primary())
	}
	switch {
	case err != nil:
		return fmt.Errorf("compare the root keys: %w", err)
	case !descends:
		return errSeparateRotations
	}
	for _, s := range surveys {
		if err := s.rehash(ctx, newest); err != nil {
			return err
		}
	}
	return nil
}

// handleRevived shows the revived credentials, and keeps or revokes them as revivedPolicy says. If there are revived
// credentials and revivedPolicy is "", it returns an error. It also returns an error if the old table does not exist
// anymore or the root keys of both tables were rotated separately, unless revivedPolicy is keep. It does nothing for a
// backup that has the last state of the table.
func (w *work) handleRevived(ctx context.Context, p plan, restored survey, moment time.Time) error {
	if p.isFinal {
		return nil // the backup has the last state of the table
	}
	if !p.sourceExists {
		if w.revivedPolicy == keep {
			return nil
		}
		return fmt.Errorf("the table of before is gone, so that nobody knows which keys were revoked since %s: they open "+
			"what they opened then. REVIVED=keep goes on with that", p.origin())
	}
	before, err := w.survey(ctx, p.source)
	if err != nil {
		return err
	}
	parts := w.parts(p.stack, p.target)
	switch err := normalizeHashes(ctx, parts, w.parts(p.stack, p.source), restored, before); {
	case errors.Is(err, errSeparateRotations) && w.revivedPolicy == keep:
		return nil
	case err != nil:
		return err
	}
	revived := w.findRevived(restored, before, moment)
	for _, c := range revived {
		status := "had ended since, and opens again"
		if c.oldExpiry != nil {
			status = "was to end on " + c.oldExpiry.UTC().Format(time.RFC3339) + ", and opens for longer"
		}
		_, _ = fmt.Fprintf(w.out, "%s %s (account %s) %s\n", c.kind, c.owner, c.accountID, status)
	}
	switch {
	case len(revived) == 0:
		w.logf("no key and no token had ended since")
		return nil
	case w.revivedPolicy == keep:
		w.logf("%d keys and tokens that had ended since open again", len(revived))
		return nil
	case w.revivedPolicy != revoke:
		return fmt.Errorf("%d keys and tokens that had ended since would open again: run this again with REVIVED=revoke, "+
			"which ends them, or REVIVED=keep", len(revived))
	}
	names := map[string]string{}
	for _, a := range restored.accounts {
		names[a.ID] = a.Name
	}
	for _, c := range revived {
		if err := w.revoke(ctx, parts, c, names[c.accountID]); err != nil {
			return fmt.Errorf("revoke the %s %s: %w", c.kind, c.owner, err)
		}
	}
	w.logf("%d keys and tokens that had ended since were revoked again", len(revived))
	return nil
}

// These are the actions in the account's audit log. They are the same as those of the corresponding operations of the
// API.
const (
	actionDeleteKey   audit.Action = "api-key.delete"
	actionUpdateKey   audit.Action = "api-key.update"
	actionRotateToken audit.Action = "tunnel.rotate-token"
)

// revoke revokes a credential of an account, as the API does. If the credential is an API key that would expire in the
// future according to the old table, revoke sets that expiry instead. A credential that does not exist anymore is not
// an error.
func (w *work) revoke(ctx context.Context, parts installation.Parts, c credential, account string) error {
	owner := auth.Owner{
		AccountID: c.accountID, Account: account,
		Viewer: auth.Principal{AccountID: c.accountID, AccountName: account, Permissions: auth.Full()},
	}
	r := audit.Request{
		AccountID: c.accountID, Actor: audit.Actor{Sub: "installation", Type: "service"},
		RequestID: parts.IDs.UUID(), Time: parts.Now(),
	}
	expiresLater := c.oldExpiry != nil && c.oldExpiry.After(w.now())
	switch {
	case c.kind == tunnelToken:
		r.Action = actionRotateToken
	case expiresLater:
		r.Action = actionUpdateKey
	default:
		r.Action = actionDeleteKey
	}
	ctx = audit.WithRequest(ctx, &r)
	var err error
	switch c.kind {
	case accountKey:
		err = accounts.Open(parts).RevokeKey(ctx, account, c.id, true)
	case consumerKey:
		consumer := keys.ConsumerLocator{
			BucketLocator: keys.BucketLocator{Owner: owner, Bucket: c.bucket}, Consumer: c.consumer,
		}
		if expiresLater {
			_, err = keys.Open(parts).UpdateKey(ctx, consumer, c.id, keys.KeyPatch{ExpiresOn: store.PatchTo(*c.oldExpiry)})
		} else {
			err = keys.Open(parts).DeleteKey(ctx, consumer, c.id)
		}
	case tunnelToken:
		_, err = tunnels.Open(parts).Rotate(ctx, owner, c.id)
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind == fault.NotFound {
		return nil // the credential was being deleted at the restored moment
	}
	return err
}

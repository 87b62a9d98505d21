package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// revived are the credentials that open something in the restored table and nothing, or less long, in the
// table of before: they were revoked, rolled or deleted since the moment. A token that a tunnel got after it is one that
// an earlier call gave it, in place of one that came alive.
func (w *work) revivedIn(restored, before survey, moment time.Time) (out []credential) {
	now := w.now()
	for key, c := range restored.credentials {
		if c.expiresOn != nil && !c.expiresOn.After(now) {
			continue
		}
		if c.kind == tunnelToken && restored.rotated[c.id].After(moment) {
			continue
		}
		then, there := before.credentials[key]
		ends := there && then.expiresOn != nil && (c.expiresOn == nil || then.expiresOn.Before(*c.expiresOn))
		switch {
		case !there:
			out = append(out, c)
		case ends:
			c.until = then.expiresOn
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b credential) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.accountID, b.accountID), cmp.Compare(a.of, b.of))
	})
	return out
}

// errApart is what alike answers for tables whose hashes cannot be compared.
var errApart = errors.New("the root keys of both tables were rotated apart, so that nobody knows which keys were revoked since: they open what they opened then. REVIVED=keep goes on with that")

// alike has what the credentials of both tables are known by be the same for the same: a rotation of the root key between the moment and now has
// given each another hash.
func alike(ctx context.Context, restored, before installation.Parts, all ...survey) error {
	from, err := ringOf(ctx, restored)
	if errors.Is(err, rootkey.ErrNone) {
		return nil // nobody is known by a hash
	}
	if err != nil {
		return fmt.Errorf("open the root key of the restored table: %w", err)
	}
	to, err := ringOf(ctx, before)
	switch {
	case errors.Is(err, rootkey.ErrNone):
		return errApart
	case err != nil:
		return fmt.Errorf("open the root key of the table of before: %w", err)
	}
	later := before
	descends, err := to.Writing().Descends(from.Writing())
	if err == nil && !descends {
		later = restored
		descends, err = from.Writing().Descends(to.Writing())
	}
	switch {
	case err != nil:
		return fmt.Errorf("compare the root keys: %w", err)
	case !descends:
		return errApart
	}
	for _, s := range all {
		if err := s.under(ctx, later); err != nil {
			return err
		}
	}
	return nil
}

// settleRevived says which credentials come alive, and does what was said about them. Until that is
// said the restore does not go on.
func (w *work) settleRevived(ctx context.Context, p plan, restored survey, moment time.Time) error {
	if p.ended {
		return nil // the backup is of the table's end
	}
	if !p.there {
		if w.revived == keep {
			return nil
		}
		return fmt.Errorf("the table of before is gone, so that nobody knows which keys were revoked since %s: they open what they opened then. REVIVED=keep goes on with that", p.origin())
	}
	before, err := w.survey(ctx, p.source)
	if err != nil {
		return err
	}
	parts := w.parts(p.stack, p.target)
	switch err := alike(ctx, parts, w.parts(p.stack, p.source), restored, before); {
	case errors.Is(err, errApart) && w.revived == keep:
		return nil
	case err != nil:
		return err
	}
	found := w.revivedIn(restored, before, moment)
	for _, c := range found {
		how := "had ended since, and opens again"
		if c.until != nil {
			how = "was to end on " + c.until.UTC().Format(time.RFC3339) + ", and opens for longer"
		}
		_, _ = fmt.Fprintf(w.out, "%s %s (account %s) %s\n", c.kind, c.of, c.accountID, how)
	}
	switch {
	case len(found) == 0:
		w.say("no key and no token had ended since")
		return nil
	case w.revived == keep:
		w.say("%d keys and tokens that had ended since open again", len(found))
		return nil
	case w.revived != revoke:
		return fmt.Errorf("%d keys and tokens that had ended since would open again: run this again with REVIVED=revoke, which ends them, or REVIVED=keep", len(found))
	}
	names := map[string]string{}
	for _, a := range restored.accounts {
		names[a.ID] = a.Name
	}
	for _, c := range found {
		if err := w.revoke(ctx, parts, c, names[c.accountID]); err != nil {
			return fmt.Errorf("revoke the %s %s: %w", c.kind, c.of, err)
		}
	}
	w.say("%d keys and tokens that had ended since were revoked again", len(found))
	return nil
}

// The actions under which the account's audit log has them. They are those of the operations that do the same.
const (
	deletesKey   audit.Action = "api-key.delete"
	changesKey   audit.Action = "api-key.update"
	rotatesToken audit.Action = "tunnel.rotate-token"
)

// revoke ends a credential of an account, by what ends it in the API. One that is gone is well.
func (w *work) revoke(ctx context.Context, parts installation.Parts, c credential, account string) error {
	owner := auth.Owner{AccountID: c.accountID, Account: account, Viewer: auth.Principal{AccountID: c.accountID, AccountName: account, Permissions: auth.Full()}}
	r := audit.Request{AccountID: c.accountID, Actor: audit.Actor{Sub: "installation", Type: "service"}, RequestID: parts.IDs.UUID(), Time: parts.Now()}
	later := c.until != nil && c.until.After(w.now())
	switch {
	case c.kind == tunnelToken:
		r.Action = rotatesToken
	case later:
		r.Action = changesKey
	default:
		r.Action = deletesKey
	}
	ctx = audit.With(ctx, &r)
	var err error
	switch c.kind {
	case accountKey:
		err = accounts.Open(parts).RevokeKey(ctx, account, c.id, true)
	case consumerKey:
		at := keys.ConsumerAt{BucketAt: keys.BucketAt{Owner: owner, Bucket: c.bucket}, Consumer: c.consumer}
		if later {
			_, err = keys.Open(parts).UpdateKey(ctx, at, c.id, keys.KeyPatch{ExpiresOn: store.PatchTo(*c.until)})
		} else {
			err = keys.Open(parts).DeleteKey(ctx, at, c.id)
		}
	case tunnelToken:
		_, err = tunnels.Open(parts).Rotate(ctx, owner, c.id)
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind == fault.NotFound {
		return nil // a record of what was being deleted at the moment
	}
	return err
}

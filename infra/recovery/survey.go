package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/stream"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// survey is the result of reading a whole table.
type survey struct {
	items       int
	accounts    []accounts.Account
	credentials map[store.Key]credential
	// builds has the builds of the deployments that are not deleted, by the names of the deployments. The served build
	// comes first.
	builds map[string][]deployments.Served
	// tunnelChangedAt has the times of the last change of tunnels, by their ids.
	tunnelChangedAt map[string]time.Time
}

// credential is a key or a token that allows access.
type credential struct {
	// kind and owner identify the credential in messages.
	kind, owner string
	// accountID, bucket, consumer and id identify the credential when it is revoked.
	accountID            string
	bucket, consumer, id string
	expiresOn            *time.Time // nil if it never expires
	// oldExpiry is the expiry in the old table (plan.source), if the old table has the credential with an earlier expiry.
	// Otherwise it is nil.
	oldExpiry *time.Time
}

// These are the kinds of credentials.
const (
	accountKey  = "account key"
	consumerKey = "API key"
	tunnelToken = "tunnel token"
)

// survey reads a whole table.
func (w *work) survey(ctx context.Context, table string) (survey, error) {
	s := survey{
		credentials: map[store.Key]credential{}, builds: map[string][]deployments.Served{},
		tunnelChangedAt: map[string]time.Time{},
	}
	err := w.eachItem(ctx, table, func(item store.Item) error {
		s.items++
		return s.add(item)
	})
	return s, err
}

// add records an item if it is an account, a credential, a tunnel, or a deployment that has a served build and is not
// deleted.
func (s *survey) add(item store.Item) (err error) {
	key := store.KeyOf(item)
	switch {
	case accounts.IsAccount(key):
		var a accounts.Account
		err = store.Decode(item, &a)
		s.accounts = append(s.accounts, a)
	case accounts.IsCredential(key):
		var k accounts.Key
		err = store.Decode(item, &k)
		s.credentials[key] = credential{
			kind: accountKey, owner: fmt.Sprintf("%s (%q) of %s", k.ID, k.Label, k.AccountName),
			accountID: k.AccountID, id: k.ID, expiresOn: k.ExpiresOn,
		}
	case keys.IsCredential(key):
		var h keys.KeyOwner
		h, err = keys.DecodeOwner(item)
		s.credentials[key] = credential{
			kind: consumerKey, owner: fmt.Sprintf("%s of the consumer %q in the bucket %q", h.ID, h.Consumer, h.Bucket),
			accountID: h.AccountID, bucket: h.Bucket, consumer: h.Consumer, id: h.ID, expiresOn: h.ExpiresOn,
		}
	case tunnels.IsTunnel(key):
		var id string
		var changedAt time.Time
		id, changedAt, err = tunnels.DecodeTunnelChange(item)
		s.tunnelChangedAt[id] = changedAt
	case tunnels.IsCredential(key):
		c := credential{kind: tunnelToken}
		c.accountID, c.id, err = tunnels.DecodeTunnel(item)
		c.owner = "of the tunnel " + c.id
		s.credentials[key] = c
	case deployments.IsDeployment(key):
		var r deployments.Record
		err = store.Decode(item, &r)
		// A deployment without a served build has no earlier build either.
		if err == nil && r.DeletedOn == nil && r.Served != nil {
			s.builds[r.Name] = append([]deployments.Served{*r.Served}, r.Previous...)
		}
	}
	if err != nil {
		return fmt.Errorf("read the item %q: %w", key.PK, err)
	}
	return nil
}

// rehash replaces the hashes of API keys and tunnel tokens with the hashes under the current root key of an
// installation. The hash of an account key does not depend on the root key.
func (s survey) rehash(ctx context.Context, p installation.Parts) error {
	for oldKey, c := range maps.Clone(s.credentials) {
		newKey, err := oldKey, error(nil)
		switch c.kind {
		case consumerKey:
			newKey, err = keys.RotatedCredentialKey(ctx, p, oldKey)
		case tunnelToken:
			newKey, err = tunnels.RotatedCredentialKey(ctx, p, oldKey)
		}
		if err != nil {
			return err
		}
		if newKey != oldKey {
			delete(s.credentials, oldKey)
			s.credentials[newKey] = c
		}
	}
	return nil
}

// objectKeys returns the keys of the objects in the bucket to which the table refers.
func (s survey) objectKeys() map[string]bool {
	out := map[string]bool{}
	for _, builds := range s.builds {
		for _, b := range builds {
			out[blob.ArtifactKey(b.Artifact)], out[blob.SourceKey(b.Source)] = true, true
		}
	}
	return out
}

// eachStreamBatch creates the stream record of each item of a table, as if the item were new. It calls deliver with
// batches of these records for each function that the table's stream calls, without the records that do not match the
// function's filter. It is needed because the stream of a restored table does not deliver items that were written
// before the stream began.
func (w *work) eachStreamBatch(
	ctx context.Context, table string,
	deliver func(ctx context.Context, function string, batch []events.DynamoDBEventRecord) error,
) error {
	const maxBatch = 100 // the size of the stream's batches
	filters := map[string]func(events.DynamoDBEventRecord) bool{}
	for _, f := range functions.Triggered() {
		for _, e := range f.Events {
			if !e.FromStream {
				continue
			}
			filter, err := stream.ParseFilter(e.FilterPattern)
			if err != nil {
				return fmt.Errorf("read what calls the function %s: %w", f.Name, err)
			}
			filters[f.Name] = filter.Matches
		}
	}
	pending := map[string][]events.DynamoDBEventRecord{}
	sizes := map[string]int{}
	flush := func(name string) error {
		if len(pending[name]) == 0 {
			return nil
		}
		batch := pending[name]
		pending[name], sizes[name] = nil, 0
		return deliver(ctx, name, batch)
	}
	n := 0
	err := w.eachItem(ctx, table, func(item store.Item) error {
		record, err := stream.ToLambda(store.StreamRecord{Key: store.KeyOf(item), New: item})
		if err != nil {
			return err
		}
		for name, matches := range filters {
			if !matches(record) {
				continue
			}
			n++
			record.Change.SequenceNumber = fmt.Sprint(n)
			pending[name], sizes[name] = append(pending[name], record), sizes[name]+int(record.Change.SizeBytes)
			// Lambda accepts 6 MB, and JSON encodes bytes as longer text.
			if len(pending[name]) == maxBatch || sizes[name] > 1<<20 {
				if err := flush(name); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for name := range filters {
		if err == nil {
			err = flush(name)
		}
	}
	return err
}

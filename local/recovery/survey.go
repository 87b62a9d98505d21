package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/stream"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// survey is what one reading of a whole table tells.
type survey struct {
	items       int
	accounts    []accounts.Account
	credentials map[store.Key]credential
	// builds are what deployments have in the bucket, by the deployments' names: the one that is served first.
	builds map[string][]deployments.Served
	// rotated are the times at which tunnels were changed last, by their ids.
	rotated map[string]time.Time
}

// credential lets somebody in.
type credential struct {
	// kind is what it is called, of whom and what it is of, for who reads.
	kind, of string
	// accountID, and the names by which it is revoked.
	accountID            string
	bucket, consumer, id string
	expiresOn            *time.Time // nil: never
	// until is when it ends in the table of before, where it is there and ends sooner.
	until *time.Time
}

// Kinds of credentials.
const (
	accountKey  = "account key"
	consumerKey = "API key"
	tunnelToken = "tunnel token"
)

// survey reads a table.
func (w *work) survey(ctx context.Context, table string) (survey, error) {
	s := survey{credentials: map[store.Key]credential{}, builds: map[string][]deployments.Served{}, rotated: map[string]time.Time{}}
	err := w.eachItem(ctx, table, func(item store.Item) error {
		s.items++
		return s.add(item)
	})
	return s, err
}

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
		s.credentials[key] = credential{kind: accountKey, of: fmt.Sprintf("%s (%q) of %s", k.ID, k.Label, k.AccountName), accountID: k.AccountID, id: k.ID, expiresOn: k.ExpiresOn}
	case keys.IsCredential(key):
		var h keys.Held
		h, err = keys.HeldBy(item)
		s.credentials[key] = credential{
			kind: consumerKey, of: fmt.Sprintf("%s of the consumer %q in the bucket %q", h.ID, h.Consumer, h.Bucket),
			accountID: h.AccountID, bucket: h.Bucket, consumer: h.Consumer, id: h.ID, expiresOn: h.ExpiresOn,
		}
	case tunnels.IsTunnel(key):
		var id string
		var on time.Time
		id, on, err = tunnels.ChangedOn(item)
		s.rotated[id] = on
	case tunnels.IsCredential(key):
		c := credential{kind: tunnelToken}
		c.accountID, c.id, err = tunnels.LeadsTo(item)
		c.of = "of the tunnel " + c.id
		s.credentials[key] = c
	case deployments.IsDeployment(key):
		var r deployments.Record
		err = store.Decode(item, &r)
		if err == nil && r.DeletedOn == nil && r.Served != nil { // who serves nothing has nothing to return to
			s.builds[r.Name] = append([]deployments.Served{*r.Served}, r.Before...)
		}
	}
	if err != nil {
		return fmt.Errorf("read the item %q: %w", key.PK, err)
	}
	return nil
}

// under has what credentials are known by be what the root key of an installation that writes makes of it.
func (s survey) under(ctx context.Context, p installation.Parts) error {
	for at, c := range maps.Clone(s.credentials) {
		to, err := at, error(nil)
		switch c.kind {
		case consumerKey:
			to, err = keys.CredentialUnder(ctx, p, at)
		case tunnelToken:
			to, err = tunnels.CredentialUnder(ctx, p, at)
		}
		if err != nil {
			return err
		}
		if to != at {
			delete(s.credentials, at)
			s.credentials[to] = c
		}
	}
	return nil
}

// objects are the keys of what the table names in the bucket.
func (s survey) objects() map[string]bool {
	out := map[string]bool{}
	for _, builds := range s.builds {
		for _, b := range builds {
			out[blob.ArtifactKey(b.Artifact)], out[blob.SourceKey(b.Source)] = true, true
		}
	}
	return out
}

// told finds what a function is told of by a table's stream, and passes it on in batches: a restored table's stream tells
// of nothing that was written before it began.
func (w *work) told(ctx context.Context, table string, pass func(ctx context.Context, function string, batch []events.DynamoDBEventRecord) error) error {
	const most = 100 // as the stream's own batches are
	meets := map[string]func(events.DynamoDBEventRecord) bool{}
	for _, f := range functions.Triggered() {
		for _, e := range f.On {
			if !e.StreamRecords {
				continue
			}
			m, err := triggers.Pattern(e.FilterPattern)
			if err != nil {
				return fmt.Errorf("read what calls the function %s: %w", f.Name, err)
			}
			meets[f.Name] = m
		}
	}
	waiting := map[string][]events.DynamoDBEventRecord{}
	bytes := map[string]int{}
	flush := func(name string) error {
		if len(waiting[name]) == 0 {
			return nil
		}
		batch := waiting[name]
		waiting[name], bytes[name] = nil, 0
		return pass(ctx, name, batch)
	}
	n := 0
	err := w.eachItem(ctx, table, func(item store.Item) error {
		record, err := stream.ToLambda(store.StreamRecord{Key: store.KeyOf(item), New: item})
		if err != nil {
			return err
		}
		for name, meet := range meets {
			if !meet(record) {
				continue
			}
			n++
			record.Change.SequenceNumber = fmt.Sprint(n)
			waiting[name], bytes[name] = append(waiting[name], record), bytes[name]+int(record.Change.SizeBytes)
			// Lambda takes 6 MB, and JSON makes a text of bytes longer.
			if len(waiting[name]) == most || bytes[name] > 1<<20 {
				if err := flush(name); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for name := range meets {
		if err == nil {
			err = flush(name)
		}
	}
	return err
}

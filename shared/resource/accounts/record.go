package accounts

import (
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Key is an account key without its text.
type Key struct {
	store.UnknownAttributes

	ID          string           `dynamodbav:"id"`
	AccountID   string           `dynamodbav:"accountId"`
	AccountName string           `dynamodbav:"accountName"` // names never change
	Label       string           `dynamodbav:"label"`
	ExpiresOn   *time.Time       `dynamodbav:"expiresOn,omitempty"` // nil: never
	CreatedOn   time.Time        `dynamodbav:"createdOn"`
	Permissions auth.Permissions `dynamodbav:"permissions"`
	// LastUsedOn is the day of the key's last use (UTC, "2006-01-02"), "" for never.
	LastUsedOn string `dynamodbav:"lastUsedOn,omitempty"`

	// Form is 0 in records of releases that had no list of keys, and formListed in later records.
	Form int `dynamodbav:"form,omitempty"`
	// TTL is the time when the database may delete the key, 0 for never.
	TTL int64 `dynamodbav:"ttl,omitempty"`
}

// formListed is the form of the records of all releases that have a list of keys.
const formListed = 1

// expiredRetention is how long a key stays in the list after its expiry.
const expiredRetention = 30 * 24 * time.Hour

// entry is a key in its account's list. The key is a separate map, so that one update can write all of it.
type entry struct {
	store.UnknownAttributes

	Key Key `dynamodbav:"key"`
	// Hash is the hash of the key's text. A revocation needs it to delete the other item.
	Hash       string `dynamodbav:"hash"`
	LastUsedOn string `dynamodbav:"lastUsedOn,omitempty"`
	TTL        int64  `dynamodbav:"ttl,omitempty"`
}

// key returns the entry's key like fromRecord, with the LastUsedOn of the entry.
func (e entry) key() Key {
	k := e.Key.fromRecord()
	k.LastUsedOn = e.LastUsedOn
	return k
}

// createWrites returns the writes that create a key. hash is the hash of the key's text.
func (k Key) createWrites(hash string) []store.Write {
	k = k.toRecord()
	return []store.Write{
		store.Create(credentialKey(hash), k),
		store.Create(entryKey(k.AccountID, k.ID), entry{Key: k, Hash: hash, TTL: k.TTL}),
	}
}

func (k Key) resource() audit.Resource { return audit.Resource{Type: "account-key", ID: k.ID} }

// expired reports whether the key expires at now or before.
func (k Key) expired(now time.Time) bool { return k.ExpiresOn != nil && !now.Before(*k.ExpiresOn) }

// everyScope is stored instead of the list of all scopes, so that a key with full access also gets the scopes that
// later releases add.
const everyScope auth.Scope = "*"

// resourcesBeforeKeyList returns the resources of all scopes that existed before keys had a list. A record of that time
// with all of these scopes was requested with all scopes.
func resourcesBeforeKeyList() []auth.Resource {
	return []auth.Resource{
		auth.Accounts, auth.AuditLogs, auth.CACertificates, auth.CustomDomains, auth.KeyBuckets, auth.Projects,
		auth.Variables,
		auth.Deployments, auth.Tunnels, auth.Metering, auth.Logs, auth.Analytics, auth.Fleets,
	}
}

// toRecord returns the key as it is stored in the table.
func (k Key) toRecord() Key {
	if k.Permissions.HasAllScopes() {
		k.Permissions.Scopes = []auth.Scope{everyScope}
	}
	if k.ExpiresOn != nil {
		k.TTL = k.ExpiresOn.Add(expiredRetention).Unix()
	}
	k.Form = formListed
	return k
}

// fromRecord returns a stored key with the list of its scopes. A key with all scopes gets all scopes of this release.
func (k Key) fromRecord() Key {
	all := slices.Contains(k.Permissions.Scopes, everyScope)
	if k.Form == 0 && !all {
		all = !slices.ContainsFunc(resourcesBeforeKeyList(), func(r auth.Resource) bool {
			return !slices.Contains(k.Permissions.Scopes, r.Read()) || !slices.Contains(k.Permissions.Scopes, r.Write())
		})
	}
	if all {
		k.Permissions.Scopes = auth.Scopes()
	}
	return k
}

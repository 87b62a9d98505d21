package accounts

import (
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/store"
)

// Key is an account key: all but its text.
type Key struct {
	store.Rest

	ID          string           `dynamodbav:"id"`
	AccountID   string           `dynamodbav:"accountId"`
	AccountName string           `dynamodbav:"accountName"` // names never change
	Label       string           `dynamodbav:"label"`
	ExpiresOn   *time.Time       `dynamodbav:"expiresOn,omitempty"` // nil: never
	CreatedOn   time.Time        `dynamodbav:"createdOn"`
	Permissions auth.Permissions `dynamodbav:"permissions"`
	// LastUsedOn is the day (UTC, "2006-01-02") on which it was last used, "" for never.
	LastUsedOn string `dynamodbav:"lastUsedOn,omitempty"`

	// Form is 0 in records of releases that had no list of keys, listed since.
	Form int `dynamodbav:"form,omitempty"`
	// TTL is when the database may forget the key, 0 for never.
	TTL int64 `dynamodbav:"ttl,omitempty"`
}

// listed is the form of a key that was made together with its entry in the list.
const listed = 1

// expiredListed is how long a key stays in the list after its expiry.
const expiredListed = 30 * 24 * time.Hour

// entry is a key in its account's list. The key is a map of its own, so that one
// update can write all of it.
type entry struct {
	store.Rest

	Key Key `dynamodbav:"key"`
	// Hash is that of the key's text, by which it is revoked.
	Hash       string `dynamodbav:"hash"`
	LastUsedOn string `dynamodbav:"lastUsedOn,omitempty"`
	TTL        int64  `dynamodbav:"ttl,omitempty"`
}

// key is the entry's key as everything but the table knows it.
func (e entry) key() Key {
	k := e.Key.loaded()
	k.LastUsedOn = e.LastUsedOn
	return k
}

// creation is what makes a key with the hash of its text.
func (k Key) creation(hash string) []store.Write {
	k = k.stored()
	return []store.Write{
		store.Create(credentialKey(hash), k),
		store.Create(keyKey(k.AccountID, k.ID), entry{Key: k, Hash: hash, TTL: k.TTL}),
	}
}

func (k Key) resource() audit.Resource { return audit.Resource{Type: "account-key", ID: k.ID} }

// expired reports whether the key ends at now or before.
func (k Key) expired(now time.Time) bool { return k.ExpiresOn != nil && !now.Before(*k.ExpiresOn) }

// everyScope is stored in place of all scopes, so that a key which may everything
// still does in a release that has more of them.
const everyScope auth.Scope = "*"

// firstResources are those that scopes were over before keys had a list. A
// record of that time which has all of their scopes was asked for as all.
func firstResources() []auth.Resource {
	return []auth.Resource{
		auth.Accounts, auth.AuditLogs, auth.CACertificates, auth.CustomDomains, auth.KeyBuckets, auth.Projects, auth.Variables,
		auth.Deployments, auth.Tunnels, auth.Metering, auth.Logs, auth.Analytics, auth.Fleets,
	}
}

// stored is the key as the table has it.
func (k Key) stored() Key {
	if k.Permissions.HasAllScopes() {
		k.Permissions.Scopes = []auth.Scope{everyScope}
	}
	if k.ExpiresOn != nil {
		k.TTL = k.ExpiresOn.Add(expiredListed).Unix()
	}
	k.Form = listed
	return k
}

// loaded is the key that the table has as k.
func (k Key) loaded() Key {
	all := slices.Contains(k.Permissions.Scopes, everyScope)
	if k.Form == 0 && !all {
		all = !slices.ContainsFunc(firstResources(), func(r auth.Resource) bool {
			return !slices.Contains(k.Permissions.Scopes, r.Read()) || !slices.Contains(k.Permissions.Scopes, r.Write())
		})
	}
	if all {
		k.Permissions.Scopes = auth.Scopes()
	}
	return k
}

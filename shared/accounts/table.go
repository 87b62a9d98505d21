package accounts

import "github.com/gatewright/gatewright/shared/store"

const (
	// accountSpace has the record of each account by its id. Read by the command
	// that lists operations.
	accountSpace store.Space = "account"
	// nameSpace has the record of each account by its name, which it keeps
	// unique. Read by the command that makes keys.
	nameSpace store.Space = "account-name"
	// credentialSpace has the account keys by the hash of their text. Read by
	// each process twice a minute for each key that asks.
	credentialSpace store.Space = "credential"
	// keySpace has the account keys as they are listed: those of an account are a
	// partition, in the order of their ids, and so of their making. Lists read it
	// whole, a revocation one of them by its id.
	keySpace store.Space = "account-keys"
)

// IsCredential reports whether the record at a key is what an account key is known by:
// while it is not there, nobody has that key.
func IsCredential(key store.Key) bool { return credentialSpace.PartsOf(key.PK) != nil }

// IsAccount reports whether the record at a key is an account's, an Account.
func IsAccount(key store.Key) bool { return accountSpace.PartsOf(key.PK) != nil }

func accountKey(accountID string) store.Key { return accountSpace.Key(accountID) }

func nameKey(name string) store.Key { return nameSpace.Key(name) }

func credentialKey(hash string) store.Key { return credentialSpace.Key(hash) }

func keyPartition(accountID string) string { return keySpace.Partition(accountID) }

func keyKey(accountID, id string) store.Key { return store.In(keyPartition(accountID), id) }

package accounts

import "github.com/gatewright/gatewright/shared/core/store"

const (
	// accountPrefix is the key prefix of accounts, by their IDs. The command that lists operations reads it.
	accountPrefix store.KeyPrefix = "account"
	// namePrefix is the key prefix of a record for each account, by the account's name. It keeps names unique. Find
	// reads it for the operator's commands that name an account.
	namePrefix store.KeyPrefix = "account-name"
	// credentialPrefix is the key prefix of the account keys, by the hash of their text. Each process reads each key in
	// use at most about twice a minute (cacheTTL).
	credentialPrefix store.KeyPrefix = "credential"
	// entryPrefix is the key prefix of the account keys for lists (entry). The keys of an account are a partition,
	// sorted by ID and so by creation. Lists read the whole partition. A revocation reads one key by its ID, and the
	// whole partition to find another key with full access.
	entryPrefix store.KeyPrefix = "account-keys"
)

// IsCredential reports whether key is the table key of an account key's credential. Without this record, the account
// key is invalid.
func IsCredential(key store.Key) bool { return credentialPrefix.Parts(key.PK) != nil }

// IsAccount reports whether key is the table key of an Account.
func IsAccount(key store.Key) bool { return accountPrefix.Parts(key.PK) != nil }

func accountRecordKey(accountID string) store.Key { return accountPrefix.Key(accountID) }

func nameKey(name string) store.Key { return namePrefix.Key(name) }

func credentialKey(hash string) store.Key { return credentialPrefix.Key(hash) }

func entryPartition(accountID string) string { return entryPrefix.Partition(accountID) }

func entryKey(accountID, id string) store.Key { return store.KeyIn(entryPartition(accountID), id) }

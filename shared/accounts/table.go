package accounts

import "github.com/gatewright/gatewright/shared/store"

const (
	// accountSpace has the record of each account by its id. Read by the command
	// that lists operations.
	accountSpace store.Space = "account"
	// nameSpace has the record of each account by its name, which it keeps
	// unique. Read by the command that makes keys.
	nameSpace store.Space = "account-name"
	// credentialSpace has the account keys by the hash of their text. Read once
	// by each process for each key that asks.
	credentialSpace store.Space = "credential"
)

func accountKey(accountID string) store.Key { return accountSpace.Key(accountID) }

func nameKey(name string) store.Key { return nameSpace.Key(name) }

func credentialKey(hash string) store.Key { return credentialSpace.Key(hash) }

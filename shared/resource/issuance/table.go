package issuance

import "github.com/gatewright/gatewright/shared/core/store"

// accountPrefix is the key prefix of the installation's ACME accounts, one for each authority, by the address of the
// authority's directory.
const accountPrefix store.KeyPrefix = "acme-account"

func accountKey(directory string) store.Key { return accountPrefix.Key(directory) }

// account is the record of an ACME account. It has the account's sealed key. The authority identifies the account by
// this key.
type account struct {
	store.UnknownAttributes

	Key []byte `dynamodbav:"key"`
}

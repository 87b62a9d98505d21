package issuance

import "github.com/gatewright/gatewright/shared/store"

// accountSpace has the installation's account at each authority, by the address of its
// directory.
const accountSpace store.Space = "acme-account"

func accountKey(directory string) store.Key { return accountSpace.Key(directory) }

// account is what accountSpace holds: the sealed key that the authority knows it by.
type account struct {
	store.Rest

	Key []byte `dynamodbav:"key"`
}

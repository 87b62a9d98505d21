package certificates

import "github.com/gatewright/gatewright/shared/store"

const (
	// caSpace has the CAs by their ids. Those of an account are a partition: lists and
	// gateways read it whole, a change one of them.
	caSpace store.Space = "client-ca"
	// fingerprintSpace has a pointer for each certificate: it is once in an account.
	fingerprintSpace store.Space = "client-ca-fingerprint"
	// nameSpace has a pointer for each name, which is once in an account too.
	nameSpace store.Space = "client-ca-name"
	// setSpace has the number of an account's CAs, which has a limit, and the version
	// of the set, by which gateways see that it has changed.
	setSpace store.Space = "client-ca-set"
)

func partition(accountID string) string { return caSpace.Partition(accountID) }

func key(accountID, id string) store.Key { return store.In(partition(accountID), id) }

func fingerprintKey(accountID, fingerprint string) store.Key {
	return fingerprintSpace.Key(accountID, fingerprint)
}

func nameKey(accountID, name string) store.Key { return nameSpace.Key(accountID, name) }

func setKey(accountID string) store.Key { return setSpace.Key(accountID) }

// set is what setSpace holds.
type set struct {
	store.Rest

	Count   int   `dynamodbav:"count"`
	Version int64 `dynamodbav:"version"`
}

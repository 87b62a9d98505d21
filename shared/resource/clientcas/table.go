package clientcas

import "github.com/gatewright/gatewright/shared/core/store"

const (
	// caPrefix is the key prefix of the CAs, by their IDs. The CAs of an account are a partition. Lists and gateways
	// read the whole partition, a change reads one CA.
	caPrefix store.KeyPrefix = "client-ca"
	// fingerprintPrefix is the key prefix of a pointer for each certificate, so that a certificate is unique in an account.
	fingerprintPrefix store.KeyPrefix = "client-ca-fingerprint"
	// namePrefix is the key prefix of a pointer for each name, so that a name is unique in an account.
	namePrefix store.KeyPrefix = "client-ca-name"
	// setPrefix is the key prefix of one item for each account. It has the number of the account's CAs, which is
	// limited. It also has the version of the set of CAs. Gateways detect changes by comparing versions.
	setPrefix store.KeyPrefix = "client-ca-set"
)

func partition(accountID string) string { return caPrefix.Partition(accountID) }

func key(accountID, id string) store.Key { return store.KeyIn(partition(accountID), id) }

func fingerprintKey(accountID, fingerprint string) store.Key {
	return fingerprintPrefix.Key(accountID, fingerprint)
}

func nameKey(accountID, name string) store.Key { return namePrefix.Key(accountID, name) }

func setKey(accountID string) store.Key { return setPrefix.Key(accountID) }

// set is the record in setPrefix.
type set struct {
	store.UnknownAttributes

	Count   int   `dynamodbav:"count"`
	Version int64 `dynamodbav:"version"`
}

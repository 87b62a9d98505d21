package upstreamcerts

import "github.com/gatewright/gatewright/shared/core/store"

const (
	// certificatePrefix is the key prefix of the certificates, by their ids. The certificates of a project
	// are one partition. Lists and builds read the whole partition, and a change reads one certificate.
	certificatePrefix store.KeyPrefix = "mtls-certificate"
	// namePrefix is the key prefix of the certificates' names (pointer). These records make sure that a name is
	// unique in its project.
	namePrefix store.KeyPrefix = "mtls-certificate-name"
	// countPrefix is the key prefix of the number of a project's certificates, which is limited.
	countPrefix store.KeyPrefix = "mtls-certificate-count"
)

func (p Project) partition() string { return certificatePrefix.Partition(p.AccountID, p.Name) }

func (p Project) key(id string) store.Key { return store.KeyIn(p.partition(), id) }

func (p Project) nameKey(name string) store.Key { return namePrefix.Key(p.AccountID, p.Name, name) }

func (p Project) countKey() store.Key { return countPrefix.Key(p.AccountID, p.Name) }

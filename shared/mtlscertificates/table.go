package mtlscertificates

import "github.com/gatewright/gatewright/shared/store"

const (
	// certificateSpace has the certificates by their ids. Those of a project are a
	// partition: lists and builds read it whole, a change one of them.
	certificateSpace store.Space = "mtls-certificate"
	// nameSpace keeps names unique in a project.
	nameSpace store.Space = "mtls-certificate-name"
	// countSpace has the number of a project's certificates, which has a limit.
	countSpace store.Space = "mtls-certificate-count"
)

func (p Project) partition() string { return certificateSpace.Partition(p.AccountID, p.Name) }

func (p Project) key(id string) store.Key { return store.In(p.partition(), id) }

func (p Project) nameKey(name string) store.Key { return nameSpace.Key(p.AccountID, p.Name, name) }

func (p Project) countKey() store.Key { return countSpace.Key(p.AccountID, p.Name) }

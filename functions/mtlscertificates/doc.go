// Package mtlscertificates serves the operations on a project's client certificates, which gateways present to
// upstreams (contract 2.10).
//
// Package upstreamcerts in shared/resource implements the operations. Builds also use it to find certificates. Read
// operations.go first, then handlers.go.
package mtlscertificates

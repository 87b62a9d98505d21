// Package mtlscertificates answers the operations on a project's client certificates,
// which its handlers show to upstreams (contract 2.10).
//
// The rules are package mtlscertificates' in shared, by which builds also find them.
// Read operations.go first, then handlers.go.
package mtlscertificates

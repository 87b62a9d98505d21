// Package certificates answers the operations on an account's client CAs: the
// certificates of those who sign what clients show in a TLS handshake
// (specification 4.3; contract 2.3).
//
// The rules are package certificates' in shared, by which gateways also verify
// clients. Read operations.go first, then handlers.go.
package certificates

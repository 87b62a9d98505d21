// Package certificates serves the operations on an account's client CAs: the certificates of the authorities that sign
// clients' certificates for TLS handshakes (specification 4.3; contract 2.3).
//
// Package clientcas in shared/resource implements the operations. Gateways also use it to verify clients. Read
// operations.go first, then handlers.go.
package certificates

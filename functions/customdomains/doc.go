// Package customdomains serves the operations on an account's custom domains: hostnames that the account's owner
// controls, and at which deployments are served (specification 4.4; contract 2.4).
//
// Package customdomains in shared implements the operations. Gateways also use it to find the deployment of a hostname.
// Read operations.go first, then handlers.go.
package customdomains

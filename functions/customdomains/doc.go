// Package customdomains answers the operations on an account's custom domains: hostnames
// of its own at which its deployments are served (specification 4.4; contract 2.4).
//
// The rules are package customdomains' in shared, by which gateways also find what a
// hostname serves. Read operations.go first, then handlers.go.
package customdomains

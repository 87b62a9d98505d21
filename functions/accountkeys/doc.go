// Package accountkeys serves the operations on an account's keys, with which callers use the management API: listing,
// creating and revoking them (contract 3.9 and 9).
//
// Package accounts in shared defines keys, and decides which callers can create or revoke them. Read operations.go
// first, then handlers.go. shapes.go converts keys between the API's types and the service's types.
package accountkeys

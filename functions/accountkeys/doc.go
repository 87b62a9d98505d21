// Package accountkeys answers the operations on the keys of an account, which
// open the management API itself: listing them, making one and revoking one
// (contract 3.9 and 9).
//
// What a key is, and who may make or revoke which, is package accounts' in shared.
// Read operations.go first, then handlers.go; shapes.go has what a key is made of.
package accountkeys

// Package sessions serves the operations on sessions. A page of the API's own origin, such as the console, exchanges an
// account key for a session, and then uses the session instead of the key.
//
// Package sessions in shared implements the operations, and package api decides which requests can use a session. Read
// operations.go first, then handlers.go.
package sessions

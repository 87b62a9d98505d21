// Package sessions answers the operations on sessions, by which a page of the API's own origin, such as the console, asks
// without having an account key: the key is exchanged once for a session.
//
// The rules are package sessions' in shared; for which requests a session counts is package api's. Read operations.go
// first, then handlers.go.
package sessions

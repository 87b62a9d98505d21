// Package console serves the console, a web page that shows what an installation has: the page, and the files that it refers
// to. It needs no key and is granted nothing: what the page shows it asks of the API, by the session of whoever has signed in.
//
// The files are package console's at the root of the repository. Read operations.go first, then handlers.go.
package console

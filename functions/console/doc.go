// Package console serves the files of the console, the web page for the management of an installation. The operations
// need no key, because the files are the same for everyone. The page requests its data from the API, with the session
// of the signed-in user.
//
// Package console at the root of the repository contains the files. Read operations.go first, then handlers.go.
package console

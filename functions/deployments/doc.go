// Package deployments answers the operations that bring a project's sources to
// the gateway: asking for an upload address, following the build, and looking
// at, repeating and deleting deployments (specification 4.7).
//
// The build itself happens elsewhere: the upload's event starts it
// (functions/builder) and it goes on as a durable operation. Read operations.go
// first, then handlers.go.
package deployments

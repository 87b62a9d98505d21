// Package deployments serves the operations that deploy a project's sources: requesting an upload address, reading the
// status and the sources of the build, and listing, reading, redeploying, rolling back and deleting deployments
// (specification 4.7).
//
// This package does not build. After an upload, S3 calls functions/builder, which begins the build as a durable
// operation. A redeploy begins its build itself, and functions/operations runs it. Read operations.go first, then
// handlers.go.
package deployments

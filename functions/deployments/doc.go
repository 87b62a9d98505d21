// Package deployments serves the operations that deploy a project's sources: requesting an upload address, reading the
// status of the build, and reading, redeploying and deleting deployments (specification 4.7).
//
// This package does not build. After the upload, S3 calls functions/builder, which begins the build as a durable
// operation. Read operations.go first, then handlers.go.
package deployments

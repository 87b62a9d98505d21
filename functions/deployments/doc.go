// Package deployments serves the operations that deploy a project's sources, and the operations on deployments
// (specification 4.7). A client requests an upload address, uploads the sources, and reads the status of the build.
// Other operations list, read, redeploy, roll back and delete deployments.
//
// This package does not build. After an upload, S3 calls functions/builder, which begins the build as a durable
// operation. The operation redeploy begins the build itself, and functions/operations runs this build. Read
// operations.go first, then handlers.go.
package deployments

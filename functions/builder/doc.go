// Package builder turns an uploaded archive into a served deployment. S3 calls it for each archive that is uploaded to
// an upload address, and it runs the build immediately. If the process dies during a build, functions/operations
// continues the build.
//
// No route calls this function. Package deployments decides which archives begin a build, and package builds defines
// builds. This package only handles S3's events, in handler.go.
package builder

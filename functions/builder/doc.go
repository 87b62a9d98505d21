// Package builder turns an uploaded archive into a served deployment: S3 calls it
// for each archive that arrives at an upload address, and it runs the build at
// once. When it dies halfway, functions/operations goes on with it.
//
// No route calls it. Which archive begins a build is in package deployments, what
// a build is in package builds; here is only S3's event, in handler.go.
package builder

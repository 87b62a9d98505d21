// Package builder hears of uploads: an archive that arrives at an upload
// address begins a build, which this function carries out at once. When it dies
// halfway, functions/operations goes on with it.
//
// No route calls it. What it does is in package deployments (which archive
// begins a build) and package builds (what a build is); here is only S3's event.
package builder

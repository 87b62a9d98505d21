// Package operations advances durable operations. The table's stream calls the function with operations that have just
// begun or that a worker has released. A schedule calls it once a minute for operations that are due or stuck (design,
// section 6), to return quota units that dead gateways have leased (section 8), and to begin to rebuild deployments
// after a release with a newer format of artifacts. An operator invokes it to list operations, to resume one, to
// rebuild deployments, and to rotate the root key.
//
// No route calls the function. It does not depend on the kinds of operations: package durable adds these to the engine.
// Read function.go. Package operation in shared defines how an operation advances.
package operations

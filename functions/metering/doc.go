// Package metering serves the operations on metering buckets, and on their plans, subscriptions and quotas
// (specification 4.9; contract 2.9, 3.7, 9). With these, an account sells its APIs by the unit. Paths do not name the
// account: the operations use the account of the caller's key.
//
// Package metering in shared implements the operations. Gateways also use it to determine a customer's quotas. Read
// operations.go first, then plans.go and subscriptions.go, handlers.go and shapes.go.
package metering

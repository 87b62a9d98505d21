// Package metering serves the operations with which an account sells its APIs by the unit: those on metering buckets,
// their plans, subscriptions and quotas (specification 4.9; contract 2.9, 3.7, 9). Paths do not name the account: it is
// that of the caller's key.
//
// Package metering in shared implements the operations. Gateways also use it to determine a customer's quotas. Read
// operations.go first, then plans.go and subscriptions.go, handlers.go and shapes.go.
package metering

// Package metering answers the operations on what an account sells by the unit: metering
// buckets, their plans, subscriptions and quotas (specification 4.9; contract 2.9, 3.7, 9). The account is that
// of the key: no path names it.
//
// The rules are package metering's in shared, by which gateways also know what a customer may
// use. Read operations.go first, then plans.go and subscriptions.go, handlers.go and shapes.go.
package metering

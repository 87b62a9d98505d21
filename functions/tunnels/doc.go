// Package tunnels serves the operations on an account's tunnels: their tokens, the services behind them, and the
// projects and environments that can use those services (specification 4.8; contract 2.8).
//
// Package tunnels in shared implements the operations. Read operations.go first, then handlers.go.
package tunnels

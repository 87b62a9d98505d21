// Package tunnels answers the operations on an account's tunnels: their tokens, the services
// behind them, and who may call those (specification 4.8; contract 2.8).
//
// The rules are package tunnels' in shared. Read operations.go first, then handlers.go.
package tunnels

// Package consumers serves the operations on the consumers of a key bucket, on their API keys, and on their managers
// (specification 4.6; contract 2.6, 3.4 to 3.6).
//
// Package keys in shared implements the operations. Read the declarations in this package first: consumers.go for
// consumers, keys.go for keys, and managers.go for managers. Then read handlers.go.
package consumers

// Package consumers answers the operations on the consumers of a key bucket:
// the consumers themselves, their API keys, rolling them, and their managers
// (specification 4.6; contract 2.6, 3.4 to 3.6).
//
// What these are and do stands in package keys in shared. Read consumers.go for
// the declarations of consumers, keys.go and managers.go for those of what
// belongs to one, then handlers.go.
package consumers

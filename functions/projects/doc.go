// Package projects answers the operations on projects: listing those of an
// account, making, reading and deleting one, and following its deletion (contract
// 2.10 and 9).
//
// A project is also made by its first upload, which is functions/deployments'
// part; both go through package deployments in shared. Read operations.go
// first, then handlers.go.
package projects

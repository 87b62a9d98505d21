// Package projects serves the operations on projects: listing, creating, reading and deleting them, and reading the
// status of a deletion (contract 2.10 and 9).
//
// The first upload to a project also creates the project (functions/deployments). Both packages use package deployments
// in shared. Read operations.go first, then handlers.go.
package projects

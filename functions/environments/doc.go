// Package environments answers the operations on the environments of projects, one
// for each branch, and on what a developer's machine takes from them (contract 2.7).
//
// The rules are package deployments' in shared, whose uploads make environments
// too. Read operations.go first, then handlers.go.
package environments

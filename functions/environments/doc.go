// Package environments serves the operations on the environments of projects. Each branch has one environment. One
// operation returns the configuration of an environment for a developer's machine (contract 2.7).
//
// Package deployments in shared implements the operations, because uploads create environments too. Read operations.go
// first, then handlers.go.
package environments

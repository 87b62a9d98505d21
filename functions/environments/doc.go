// Package environments serves the operations on the environments of projects. Each branch has one environment. Two
// operations return the configuration of an environment (contract 2.7). One of them adds the environment's variables,
// for a developer's machine.
//
// Package deployments in shared implements the operations, because uploads create environments too. Read operations.go
// first, then handlers.go.
package environments

// Package tally tells dry runs of the deletion of a project what goes with it: all that
// package removal removes, which it stands beside. Who adds a resource to projects
// adds it there, and here.
//
// What it is not: it removes nothing, and so links none of that. This file is all of it.
package tally

import (
	"context"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/variables"
)

// Tally counts what is in projects. It is safe for concurrent use.
type Tally struct {
	table *store.Table
	keys  *keys.Service
}

// Open makes the Tally of an installation.
func Open(p installation.Parts) *Tally { return &Tally{p.Table, keys.Open(p)} }

// Project tells a dry run what goes with a project, whether or not there is one.
// Outside of a dry run it does nothing.
func (t *Tally) Project(ctx context.Context, accountID, project string) error {
	return store.Removes(ctx, func(ctx context.Context) (map[string]int, error) {
		n, err := t.keys.DefaultsRemoved(ctx, accountID, project)
		if err != nil {
			return nil, err
		}
		n["projects"] = 1
		if n["environments"], n["deployments"], err = deployments.In(ctx, t.table, accountID, project); err != nil {
			return nil, err
		}
		if n["variables"], err = variables.InProject(ctx, t.table, accountID, project); err != nil {
			return nil, err
		}
		n["mtlsCertificates"], err = mtlscertificates.InProject(ctx, t.table, accountID, project)
		return n, err
	})
}

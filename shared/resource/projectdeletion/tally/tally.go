// Package tally reports to dry runs how many objects of each type the deletion of a project removes (package
// projectdeletion). A new kind of resource in projects needs a state there and a count here.
//
// The package removes nothing, so it does not import the code that does. It has only this file.
package tally

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

// Counter counts the contents of projects. It is safe for concurrent use.
type Counter struct {
	table *store.Table
	keys  *keys.Service
}

// Open returns the Counter of an installation.
func Open(p installation.Parts) *Counter { return &Counter{p.Table, keys.Open(p)} }

// ReportProject reports to a dry run how many objects the deletion of a project removes. It counts the project as one
// object, even if it does not exist. Outside of a dry run it does nothing.
func (c *Counter) ReportProject(ctx context.Context, accountID, project string) error {
	return store.ReportRemovals(ctx, func(ctx context.Context) (map[string]int, error) {
		n, err := c.keys.CountDefaultBuckets(ctx, accountID, project)
		if err != nil {
			return nil, err
		}
		n["projects"] = 1
		if n["environments"], n["deployments"], err = deployments.CountInProject(ctx, c.table, accountID,
			project); err != nil {
			return nil, err
		}
		if n["variables"], err = variables.CountInProject(ctx, c.table, accountID, project); err != nil {
			return nil, err
		}
		n["mtlsCertificates"], err = upstreamcerts.CountInProject(ctx, c.table, accountID, project)
		return n, err
	})
}

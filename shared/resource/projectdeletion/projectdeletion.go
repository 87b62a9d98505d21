// Package projectdeletion runs the deletion of projects (deployments.DeleteProject): a
// durable operation that removes all contents of a project and frees its name last.
//
// During the deletion, the project gets no new contents, because every creation requires store.ProjectActive in its
// own commit, or an existing deployment, which the first state deletes. So the data that a state has removed does not
// come back, and a later project with the same name shares nothing with the old one. Some data remains after the
// deletion, but cannot be found through the project's name: the objects of deployments, whose names are never reused,
// and the consumers and keys of earlier generations of buckets. The deletion begins further operations that remove
// this data (deployments.Clean and the cascades of package keys).
//
// A new kind of resource in projects needs a state here before "release", and a count in package tally.
//
// The package does not begin deletions or serve requests; package deployments does both. The rules are in contract 9.
package projectdeletion

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

// Remover has the durable operation that deletes a project. It is safe for concurrent use.
type Remover struct {
	table         *store.Table
	keys          *keys.Service
	certificates  *upstreamcerts.Service
	tunnelService *tunnels.Service
}

// Open returns the Remover of an installation.
func Open(p installation.Parts) *Remover {
	return &Remover{p.Table, keys.Open(p), upstreamcerts.Open(p, nil), tunnels.Open(p)}
}

// Definitions returns the definition of the operation. Every state is mandatory (MustSucceed): data that a failed state
// leaves behind would stay forever, and the name of a project whose deletion fails would never be free.
func (r *Remover) Definitions() []operation.Definition {
	return []operation.Definition{{
		Kind: deployments.DeleteProject, First: "deployments",
		States: map[string]operation.State{
			"deployments": {
				Description: "ends the deployments, which gateways stop serving, with their environments",
				Task:        deployments.DeleteDeployments(r.table), Next: "variables", MustSucceed: true,
			},
			"variables": {
				Description: "deletes the variables of all branches", Task: r.variables(), Next: "certificates",
				MustSucceed: true,
			},
			"certificates": {
				Description: "deletes the mTLS certificates with their keys", Task: r.mtls, Next: "buckets",
				MustSucceed: true,
			},
			"buckets": {
				Description: "deletes the project's own key buckets, whose keys open nothing from then on",
				Task:        r.buckets, Next: "tunnels", MustSucceed: true,
			},
			"tunnels": {
				Description: "takes the project out of what the services of tunnels may be called by",
				Task:        r.tunnels, Next: "release", MustSucceed: true,
			},
			"release": {
				Description: "frees the project's name", Task: deployments.ReleaseProject, Next: operation.Succeed,
				MustSucceed: true,
			},
		},
	}}
}

func (r *Remover) variables() operation.Task {
	return operation.Items[variables.BranchCount]{
		Table: r.table,
		Query: func(_ context.Context, s operation.Step) (store.Query, error) {
			var in deployments.DeletionInput
			err := s.Input(&in)
			return variables.BranchCountsQuery(in.AccountID, in.Project), err
		},
		Change: func(ctx context.Context, s operation.Step, c variables.BranchCount, write operation.Group) error {
			var in deployments.DeletionInput
			if err := s.Input(&in); err != nil {
				return err
			}
			return c.Purge(ctx, r.table, in.AccountID, in.Project, write)
		},
	}.Drain()
}

func (r *Remover) mtls(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.DeletionInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	writes, more, err := r.certificates.Removal(ctx, in.AccountID, in.Project)
	return operation.Result{Writes: writes, Repeat: more}, err
}

func (r *Remover) buckets(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.DeletionInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	writes, err := r.keys.RemoveDefaultBuckets(ctx, in.AccountID, in.Project, s.ID)
	return operation.Result{Writes: writes}, err
}

func (r *Remover) tunnels(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.DeletionInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	writes, more, err := r.tunnelService.RemoveProject(ctx, in.AccountID, in.Project)
	return operation.Result{Writes: writes, Repeat: more}, err
}

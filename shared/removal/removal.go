// Package removal carries out the deletion of projects (deployments.DeleteProject):
// a durable operation that removes all that is in one, and frees its name last.
//
// While it is under way nothing is made in the project: everything that makes
// something there asks for store.ProjectStands in its own commit. So what a state
// has found gone stays gone, and a project that is made again under the name meets
// nothing of the old one. What is left when it has ended goes by other names: the
// objects of deployments, which are never called the same, and the consumers and
// keys of buckets' earlier generations. Operations that are begun here
// remove those (deployments.Clean and the cascades of package keys).
//
// Who adds a resource to projects adds a state here, before release, and counts it in
// package tally.
//
// What it is not: it begins nothing and answers nobody; package deployments does.
// The rules are those of contract 9.
package removal

import (
	"context"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnels"
	"github.com/gatewright/gatewright/shared/variables"
)

// Remover deletes projects. It is safe for concurrent use.
type Remover struct {
	table        *store.Table
	keys         *keys.Service
	certificates *mtlscertificates.Service
	forgets      *tunnels.Service
}

// Open makes the Remover of an installation.
func Open(p installation.Parts) *Remover {
	return &Remover{p.Table, keys.Open(p), mtlscertificates.Open(p, nil), tunnels.Open(p)}
}

// Definitions returns the operation's definition. Every state has to happen: what it
// left would stay for ever, and a project that is never deleted keeps its name.
func (r *Remover) Definitions() []operation.Definition {
	return []operation.Definition{{
		Kind: deployments.DeleteProject, First: "deployments",
		States: map[string]operation.State{
			"deployments": {
				Does: "ends the deployments, which gateways stop serving, with their environments",
				Task: deployments.Stop(r.table), Next: "variables", Must: true,
			},
			"variables":    {Does: "deletes the variables of all branches", Task: r.variables(), Next: "certificates", Must: true},
			"certificates": {Does: "deletes the mTLS certificates with their keys", Task: r.mtls, Next: "buckets", Must: true},
			"buckets":      {Does: "deletes the project's own key buckets, whose keys open nothing from then on", Task: r.buckets, Next: "tunnels", Must: true},
			"tunnels":      {Does: "takes the project out of what the services of tunnels may be called by", Task: r.tunnels, Next: "release", Must: true},
			"release":      {Does: "frees the project's name", Task: deployments.Release, Next: operation.Succeed, Must: true},
		},
	}}
}

func (r *Remover) variables() operation.Task {
	return operation.Items[variables.Counted]{
		Table: r.table,
		Query: func(_ context.Context, s operation.Step) (store.Query, error) {
			var in deployments.DeletionInput
			err := s.Input(&in)
			return variables.CountedOf(in.AccountID, in.Project), err
		},
		Change: func(ctx context.Context, s operation.Step, c variables.Counted, write operation.Group) error {
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
	return operation.Result{Writes: writes, Again: more}, err
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
	writes, more, err := r.forgets.Forget(ctx, in.AccountID, in.Project)
	return operation.Result{Writes: writes, Again: more}, err
}

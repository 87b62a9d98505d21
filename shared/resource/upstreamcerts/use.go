package upstreamcerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// Usable is what a build needs to know about a certificate of its project.
type Usable struct {
	ID, Name string
	Enabled  bool // for the build's kind of environment
	ValidTo  time.Time
}

// Usable returns all certificates of a project, by their names. Certificates that are not enabled for the kind of
// environment have Enabled false.
func (s *Service) Usable(
	ctx context.Context, accountID, project string, kind environment.Kind,
) (map[string]Usable, error) {
	all, err := s.records(ctx, projectWithoutCaller(accountID, project))
	if err != nil {
		return nil, err
	}
	out := make(map[string]Usable, len(all))
	for _, r := range all {
		c, err := r.leaf()
		if err != nil {
			return nil, err
		}
		out[r.Name] = Usable{ID: r.ID, Name: r.Name, Enabled: slices.Contains(r.Environments, kind), ValidTo: c.NotAfter}
	}
	return out, nil
}

// Unseal returns a certificate's chain and private key in PEM, for a build's artifact.
func (s *Service) Unseal(ctx context.Context, accountID, project, id string) (chain, key string, err error) {
	at := projectWithoutCaller(accountID, project)
	var r record
	if err := s.parts.Table.Get(ctx, at.key(id), &r); err != nil {
		return "", "", fmt.Errorf("read an mTLS certificate: %w", err)
	}
	opened, err := s.sealer.Open(ctx, r.Key, sealContext(at, id))
	if err != nil {
		return "", "", fmt.Errorf("open the key of the mTLS certificate %s: %w", id, err)
	}
	return r.Chain, string(opened), nil
}

// ServingWrites returns the writes that count a use of each certificate. Commit them together with the write that
// makes a build with these certificates the served one. ok is false if a certificate was deleted or is not enabled
// for the kind of environment. If a concurrent deletion of a certificate commits first, this commit fails. Otherwise
// the deletion finds that the deployment uses the certificate.
func (s *Service) ServingWrites(
	ctx context.Context, accountID, project string, kind environment.Kind, ids []string,
) (writes []store.Write, ok bool, err error) {
	at := projectWithoutCaller(accountID, project)
	for _, id := range ids {
		var r record
		switch err := s.parts.Table.Get(ctx, at.key(id), &r); {
		case errors.Is(err, store.ErrNotFound), err == nil && !slices.Contains(r.Environments, kind):
			return nil, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("read an mTLS certificate: %w", err)
		}
		writes = append(writes, store.Update(at.key(id), store.Add(store.At("uses"), 1)).
			If(store.Equal(store.At("environments"), r.Environments)).Else(store.ErrStale))
	}
	return writes, true, nil
}

// maxRemoved is the maximum number of certificates that one transaction removes.
const maxRemoved = 40

// Removal returns writes that remove certificates of a project that is being deleted. The writes fit into one
// transaction. more reports whether the project has further certificates. In a project that is being deleted, no
// certificates can be created.
func (s *Service) Removal(ctx context.Context, accountID, project string) (writes []store.Write, more bool, err error) {
	at := projectWithoutCaller(accountID, project)
	all, err := s.records(ctx, at)
	if err != nil {
		return nil, false, err
	}
	for i, r := range all {
		if i == maxRemoved {
			return writes, true, nil
		}
		writes = append(writes, store.Delete(at.key(r.ID)), store.Delete(at.nameKey(r.Name)))
	}
	return append(writes, store.Delete(at.countKey())), false, nil
}

// CountInProject returns the number of certificates of a project.
func CountInProject(ctx context.Context, table *store.Table, accountID, project string) (int, error) {
	n, err := table.Count(ctx, store.Query{PK: projectWithoutCaller(accountID, project).partition()})
	if err != nil {
		return 0, fmt.Errorf("count the mTLS certificates of a project: %w", err)
	}
	return n, nil
}

// projectWithoutCaller returns a project without a caller, for builds and durable operations.
func projectWithoutCaller(accountID, project string) Project {
	return Project{Owner: auth.Owner{AccountID: accountID}, Name: project}
}

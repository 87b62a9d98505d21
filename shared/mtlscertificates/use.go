package mtlscertificates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/store"
)

// Usable is a certificate as a build sees it.
type Usable struct {
	ID, Name string
	Enabled  bool // for the build's kind of environment
	ValidTo  time.Time
}

// Usable gives all certificates of a project, by their names.
func (s *Service) Usable(ctx context.Context, accountID, project string, kind environment.Kind) (map[string]Usable, error) {
	all, err := s.records(ctx, ofProject(accountID, project))
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

// Unseal gives a certificate's chain and private key in PEM, for a build's artifact.
func (s *Service) Unseal(ctx context.Context, accountID, project, id string) (chain, key string, err error) {
	at := ofProject(accountID, project)
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

// Serving gives the writes by which a build that shows certificates comes to be
// served, for the commit that has it served. ok is false where one of them is gone, or
// not enabled for the kind any more. A deletion at the same time happens before, and
// the commit does not, or sees that the deployment uses it.
func (s *Service) Serving(ctx context.Context, accountID, project string, kind environment.Kind, ids []string) (writes []store.Write, ok bool, err error) {
	at := ofProject(accountID, project)
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

// maxRemoved is how many certificates one transaction removes.
const maxRemoved = 40

// Removal gives writes that remove certificates of a project which is deleted, as many
// as fit one transaction, and whether there are more. Nothing is made in it any more.
func (s *Service) Removal(ctx context.Context, accountID, project string) (writes []store.Write, more bool, err error) {
	at := ofProject(accountID, project)
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

// InProject counts the certificates of a project.
func InProject(ctx context.Context, table *store.Table, accountID, project string) (int, error) {
	n, err := table.Count(ctx, store.Query{PK: ofProject(accountID, project).partition()})
	if err != nil {
		return 0, fmt.Errorf("count the mTLS certificates of a project: %w", err)
	}
	return n, nil
}

// ofProject is a project as builds ask about it, for nobody.
func ofProject(accountID, project string) Project {
	return Project{Owner: auth.Owner{AccountID: accountID}, Name: project}
}

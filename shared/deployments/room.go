package deployments

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// rooms are what an account's limits leave for what an upload or its like makes: load Wanted, and take what is made.
type rooms struct {
	service                                     *Service
	accountID                                   string
	projects, environments, deployments, builds *counts.Tally
}

func (s *Service) rooms(o auth.Owner) rooms {
	return rooms{
		s, o.AccountID,
		s.counts.Of(o.AccountID, limits.Projects), s.counts.Of(o.AccountID, limits.Environments), s.counts.Of(o.AccountID, limits.Deployments), s.counts.Of(o.AccountID, limits.Builds),
	}
}

// madeUnchecked is why the making of something may be decided from a count.
const madeUnchecked = "who makes one raises the account's bound, whose turn the commit asks for"

// project is the write that goes with a new project. Fault: the refusal of limits.Projects.
func (r rooms) project(ctx context.Context) (store.Write, error) {
	return r.projects.Take(ctx, 1, func(ctx context.Context) (int64, error) {
		n, err := r.service.parts.Table.Count(ctx, store.Query{PK: store.ProjectPartition(r.accountID), Unchecked: madeUnchecked})
		return int64(n), err
	})
}

// environmentReaders is how many projects are counted at the same time.
const environmentReaders = 16

// environment is the write that goes with a new environment. Fault: the refusal of limits.Environments.
func (r rooms) environment(ctx context.Context) (store.Write, error) {
	return r.environments.Take(ctx, 1, func(ctx context.Context) (int64, error) {
		table := r.service.parts.Table
		projects, err := store.Collect[Project](ctx, table, store.Query{PK: store.ProjectPartition(r.accountID), Unchecked: madeUnchecked})
		if err != nil {
			return 0, fmt.Errorf("read the projects of an account: %w", err)
		}
		found := make([]int, len(projects))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(environmentReaders)
		for i, p := range projects {
			group.Go(func() (err error) {
				found[i], err = table.Count(ctx, store.Query{PK: environmentPartition(r.accountID, p.Name), Unchecked: madeUnchecked})
				return err
			})
		}
		err = group.Wait()
		var sum int64
		for _, n := range found {
			sum += int64(n)
		}
		return sum, err
	})
}

// begun is what an upload address or a build has while it may yet come to something (limits.Builds): its end removes it, and its TTL where there is none.
type begun struct {
	store.Rest
	TTL int64 `dynamodbav:"ttl"`
}

// longestBuild is longer than a build takes that goes on after failures and deaths: one that is
// counted for ever would be of nobody's use, and what is counted no more is still bounded by limits.Deployments.
const longestBuild = time.Hour

// build gives the writes that go with an upload address or a build of what is there, which is open until a moment. Faults:
// the refusals of limits.Deployments and limits.Builds.
func (r rooms) build(ctx context.Context, id string, until time.Time) ([]store.Write, error) {
	today, err := r.deployments.Take(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	underWay, err := r.builds.Take(ctx, 1, func(ctx context.Context) (int64, error) {
		n, err := r.service.parts.Table.Count(ctx, store.Query{PK: begunPartition(r.accountID), Unchecked: madeUnchecked})
		return int64(n), err
	})
	if err != nil {
		return nil, err
	}
	return []store.Write{today, underWay, store.Create(begunKey(r.accountID, id), begun{TTL: until.Unix()})}, nil
}

// openUntil has a build counted until a moment at most, which is later than that of its address.
func openUntil(accountID, id string, until time.Time) store.Write {
	return store.Upsert(begunKey(accountID, id), store.Set(store.At(store.TTLAttribute), until.Unix()))
}

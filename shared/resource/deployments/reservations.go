package deployments

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
)

// reservations has counters for the account's limits on the resources that an upload or a similar request creates. Load
// the ReadRequest of each counter that is needed, and then call the reserve method for each created resource.
type reservations struct {
	service                                     *Service
	accountID                                   string
	projects, environments, deployments, builds *counts.Counter
}

func (s *Service) reservations(o auth.Owner) reservations {
	return reservations{
		s, o.AccountID,
		s.counts.NewCounter(o.AccountID, limits.Projects), s.counts.NewCounter(o.AccountID, limits.Environments),
		s.counts.NewCounter(o.AccountID, limits.Deployments), s.counts.NewCounter(o.AccountID, limits.Builds),
	}
}

// uncheckedReason is the reason why a commit needs no condition on the items that a query counts
// (store.Query.Unchecked).
const uncheckedReason = "each creation also changes the account's counter, and the commit checks the counter's revision"

// reserveProject returns the write that counts a new project. It returns a fault if the limit limits.Projects is
// reached.
func (r reservations) reserveProject(ctx context.Context) (store.Write, error) {
	return r.projects.Reserve(ctx, 1, func(ctx context.Context) (int64, error) {
		n, err := r.service.parts.Table.Count(ctx, store.Query{
			PK:        store.ProjectPartition(r.accountID),
			Unchecked: uncheckedReason,
		})
		return int64(n), err
	})
}

// maxConcurrentProjects is the maximum number of projects whose environments are counted concurrently.
const maxConcurrentProjects = 16

// reserveEnvironment returns the write that counts a new environment. It returns a fault if the limit
// limits.Environments is reached.
func (r reservations) reserveEnvironment(ctx context.Context) (store.Write, error) {
	return r.environments.Reserve(ctx, 1, func(ctx context.Context) (int64, error) {
		table := r.service.parts.Table
		projects, err := store.Collect[Project](ctx, table, store.Query{
			PK:        store.ProjectPartition(r.accountID),
			Unchecked: uncheckedReason,
		})
		if err != nil {
			return 0, fmt.Errorf("read the projects of an account: %w", err)
		}
		found := make([]int, len(projects))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(maxConcurrentProjects)
		for i, p := range projects {
			group.Go(func() (err error) {
				found[i], err = table.Count(ctx, store.Query{
					PK:        environmentPartition(r.accountID, p.Name),
					Unchecked: uncheckedReason,
				})
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

// openBuild is the record of an upload address or a build that has not ended. The end of the build deletes the record.
// The record expires (TTL) if no archive arrives, or if the build takes longer than maxBuildDuration.
type openBuild struct {
	store.UnknownAttributes
	TTL int64 `dynamodbav:"ttl"`
}

// maxBuildDuration is the time after which a build is no longer counted for limits.Builds. It is longer than a build
// takes, including retries after failures and crashes. The count for limits.Deployments does not depend on the end of a
// build.
const maxBuildDuration = time.Hour

// reserveBuild returns the writes that count an upload address or a build for limits.Deployments and, until a time,
// also for limits.Builds. It returns a fault if one of these limits is reached.
func (r reservations) reserveBuild(ctx context.Context, id string, until time.Time) ([]store.Write, error) {
	today, err := r.deployments.Reserve(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	running, err := r.builds.Reserve(ctx, 1, func(ctx context.Context) (int64, error) {
		n, err := r.service.parts.Table.Count(ctx, store.Query{
			PK:        openBuildPartition(r.accountID),
			Unchecked: uncheckedReason,
		})
		return int64(n), err
	})
	if err != nil {
		return nil, err
	}
	return []store.Write{today, running, store.Create(openBuildKey(r.accountID, id), openBuild{TTL: until.Unix()})}, nil
}

// keepOpenUntil returns the write that counts a claimed upload for limits.Builds until a time, unless its build ends
// earlier. Without this write, the upload would only be counted until shortly after the expiry of its address.
func keepOpenUntil(accountID, id string, until time.Time) store.Write {
	return store.Upsert(openBuildKey(accountID, id), store.Set(store.At(store.TTLAttribute), until.Unix()))
}

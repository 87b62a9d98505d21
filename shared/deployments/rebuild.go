package deployments

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Rebuild builds anew what was built in an older format of artifacts than releases write now: package builds has
// it. There is one for each time that the format rises, and one for each time that somebody asks.
const Rebuild = "artifacts-rebuild"

// RebuildInput is what a Rebuild is begun with.
type RebuildInput struct {
	// Format is the one to come to. Releases that write another leave the operation alone.
	Format int   `json:"format"`
	Pass   int64 `json:"pass"`
}

// RebuildData is how far a Rebuild has come.
type RebuildData struct {
	// Shard and After are the deployment that was looked at last: the first character of its name, as a place in
	// builds' list of them, and the name, "" before the first of the shard.
	Shard int    `json:"shard"`
	After string `json:"after,omitempty"`
	// Seen counts deployments, Rebuilt builds.
	Seen    int `json:"seen"`
	Rebuilt int `json:"rebuilt"`
	// Kept are the first of the builds that keep the artifact that they have, AllKept counts them.
	Kept    []KeptBuild `json:"kept,omitempty"`
	AllKept int         `json:"allKept"`
	// Skip are those of the deployment behind After.
	Skip []string `json:"skip,omitempty"`
}

// KeptBuild is a build that could not be made anew, and is served as it was.
type KeptBuild struct {
	Deployment string `json:"deployment"`
	BuildID    string `json:"buildId"`
	Why        string `json:"why"`
}

// RebuildDelay is how long a Rebuild waits after a release has come that writes another format: longer than an
// update takes, in which the release before builds as well.
const RebuildDelay = time.Hour

// formats is the one record of which format the installation's artifacts have.
type formats struct {
	store.Rest

	ID      string `dynamodbav:"id"`
	Version int64  `dynamodbav:"version"`
	// Format is the one that the release writes that has looked last.
	Format int `dynamodbav:"format"`
	// Pass counts the Rebuilds.
	Pass int64 `dynamodbav:"pass"`
}

// FormatWritten is the format that the release writes that has looked last (KeepFormat).
func FormatWritten(ctx context.Context, table *store.Table) (int, error) {
	var f formats
	if err := table.Load(ctx, store.Want(formatKey(), &f)); err != nil {
		return 0, fmt.Errorf("read the artifacts' format: %w", err)
	}
	return max(1, f.Format), nil
}

// KeepFormat begins a Rebuild where what a release writes is a newer format than it was, or where now says that
// somebody asks for one, which then does not wait. It answers the operation's id, "" for none. A release that writes an
// older one, as after a rollback, notes that: the next rise has another Rebuild. It is called once a minute, by
// whichever releases there are.
func KeepFormat(ctx context.Context, table *store.Table, written int, asked bool, now time.Time) (id string, err error) {
	err = table.Again(ctx, func(ctx context.Context) error {
		id = ""
		var f formats
		if err := table.Load(ctx, store.Want(formatKey(), &f)); err != nil {
			return fmt.Errorf("read the artifacts' format: %w", err)
		}
		before := max(1, f.Format)
		if written == before && !asked {
			return nil
		}
		f.ID, f.Version, f.Format = "artifacts", f.Version+1, written
		var writes []store.Write
		if written > before || asked {
			f.Pass++
			id = "rebuild-" + strconv.FormatInt(f.Pass, 10)
			begin := operation.Start{
				ID: id, Kind: Rebuild, Subject: "format " + strconv.Itoa(written), Input: RebuildInput{Format: written, Pass: f.Pass},
			}
			if !asked {
				begin.NotBefore = now.Add(RebuildDelay)
			}
			writes = append(writes, operation.Begin(begin, now))
		}
		return table.Commit(ctx, append(writes, store.Put(formatKey(), f))...)
	})
	if err != nil {
		return "", fmt.Errorf("keep the artifacts' format: %w", err)
	}
	return id, nil
}

// Builds are those that are served or can be returned to, the served one first.
func (r Record) Builds() []Served {
	if r.Served == nil {
		return nil
	}
	return append([]Served{*r.Served}, r.Before...)
}

// Rebuilt are the writes by which a build has another artifact, of the same sources and values: as long as the
// deployment serves what it did when it was read, and can return to what it could. The pass and step name what begins
// to remove the earlier artifact.
func (r Record) Rebuilt(build Served, artifact, by string, now time.Time) []store.Write {
	change := store.Set(store.At("served", "artifact"), artifact)
	still := store.And(store.Equal(store.At("served", "number"), r.Served.Number), store.Equal(store.At("served", "artifact"), r.Served.Artifact))
	if build.Number != r.Served.Number {
		before := slices.Clone(r.Before)
		for i := range before {
			if before[i].Number == build.Number {
				before[i].Artifact = artifact
			}
		}
		change, still = store.Set(store.At("before"), before), store.And(still, store.Equal(store.At("before"), r.Before))
	}
	return []store.Write{
		r.update(store.ErrStale, change).If(still),
		operation.Begin(operation.Start{
			ID: "clean-" + r.Name + "-" + by, Kind: Clean, Subject: r.Name, AccountID: r.AccountID,
			Input: CleanInput{Deployment: r.Name}, NotBefore: now.Add(MinAge + cleanDelay),
		}, now),
	}
}

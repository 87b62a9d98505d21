package deployments

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Rebuild is the kind of operation that builds artifacts of an older format again. Package builds runs it. A Rebuild
// begins each time the format number increases, and on each request of an operator.
const Rebuild = "artifacts-rebuild"

// RebuildInput is the input of a Rebuild. Pass is its position among the installation's Rebuilds, from 1.
type RebuildInput struct {
	// Format is the target format. Releases that write another format skip the operation.
	Format int   `json:"format"`
	Pass   int64 `json:"pass"`
}

// RebuildData is the progress of a Rebuild.
type RebuildData struct {
	// Shard and After identify the last deployment that was checked. Shard is the position of the first character of
	// its name in package builds' list of first characters. After is its name, "" before the first deployment of the
	// shard.
	Shard int    `json:"shard"`
	After string `json:"after,omitempty"`
	// Checked is the number of checked deployments. Rebuilt is the number of rebuilt builds.
	Checked int `json:"seen"`
	Rebuilt int `json:"rebuilt"`
	// Unchanged are the first builds that could not be built again. UnchangedTotal is the number of all builds that
	// could not.
	Unchanged      []UnchangedBuild `json:"kept,omitempty"`
	UnchangedTotal int              `json:"allKept"`
	// Skip are the IDs of the builds that the Rebuild skips in the deployment that follows After.
	Skip []string `json:"skip,omitempty"`
}

// UnchangedBuild is a build that could not be built again. It keeps its artifact.
type UnchangedBuild struct {
	Deployment string `json:"deployment"`
	BuildID    string `json:"buildId"`
	Reason     string `json:"why"`
}

// RebuildDelay is the time that a Rebuild waits after the start of a release that writes a newer format. It is longer
// than an update takes: during an update, the previous release also builds.
const RebuildDelay = time.Hour

// formatRecord is the record of the format of artifacts. An installation has only one.
type formatRecord struct {
	store.UnknownAttributes

	ID      string `dynamodbav:"id"`
	Version int64  `dynamodbav:"version"`
	// Format is the artifact format of the release that last called EnsureFormat.
	Format int `dynamodbav:"format"`
	// Pass is the number of Rebuilds.
	Pass int64 `dynamodbav:"pass"`
}

// CurrentFormat returns the artifact format of the release that last called EnsureFormat, from 1.
func CurrentFormat(ctx context.Context, table *store.Table) (int, error) {
	var f formatRecord
	if err := table.Load(ctx, store.Get(formatKey(), &f)); err != nil {
		return 0, fmt.Errorf("read the artifacts' format: %w", err)
	}
	return max(1, f.Format), nil
}

// EnsureFormat records format, the artifact format of the running release. It begins a Rebuild if format is newer than
// the recorded one, or if forced is true. A forced Rebuild does not wait for RebuildDelay. EnsureFormat returns the id
// of the begun operation, "" for none. After a return to an earlier release, format can be older: it is recorded too,
// so that the next increase begins another Rebuild. Every running release calls EnsureFormat once a minute.
func EnsureFormat(
	ctx context.Context, table *store.Table, format int, forced bool, now time.Time,
) (id string, err error) {
	err = table.RunInTx(ctx, func(ctx context.Context) error {
		id = ""
		var f formatRecord
		if err := table.Load(ctx, store.Get(formatKey(), &f)); err != nil {
			return fmt.Errorf("read the artifacts' format: %w", err)
		}
		before := max(1, f.Format)
		if format == before && !forced {
			return nil
		}
		f.ID, f.Version, f.Format = "artifacts", f.Version+1, format
		var writes []store.Write
		if format > before || forced {
			f.Pass++
			id = "rebuild-" + strconv.FormatInt(f.Pass, 10)
			start := operation.Start{
				ID: id, Kind: Rebuild, Subject: "format " + strconv.Itoa(format), Input: RebuildInput{Format: format, Pass: f.Pass},
			}
			if !forced {
				start.NotBefore = now.Add(RebuildDelay)
			}
			writes = append(writes, operation.Create(start, now))
		}
		return table.Commit(ctx, append(writes, store.Put(formatKey(), f))...)
	})
	if err != nil {
		return "", fmt.Errorf("keep the artifacts' format: %w", err)
	}
	return id, nil
}

// Builds returns the served build, followed by the builds that a rollback can choose.
func (r Record) Builds() []Served {
	if r.Served == nil {
		return nil
	}
	return append([]Served{*r.Served}, r.Previous...)
}

// ReplaceArtifact returns the writes that replace the artifact of a build with one from the same sources and values.
// The commit fails if the deployment was deleted, or if its served build has changed since r was read. For an earlier
// build, it also fails if the list of earlier builds has changed. idSuffix is the end of the id of the operation that
// removes the replaced artifact. It contains the pass and the step.
func (r Record) ReplaceArtifact(build Served, artifact, idSuffix string, now time.Time) []store.Write {
	change := store.Set(store.At("served", "artifact"), artifact)
	unchanged := store.And(store.Equal(store.At("served", "number"), r.Served.Number),
		store.Equal(store.At("served", "artifact"), r.Served.Artifact))
	if build.Number != r.Served.Number {
		before := slices.Clone(r.Previous)
		for i := range before {
			if before[i].Number == build.Number {
				before[i].Artifact = artifact
			}
		}
		change, unchanged = store.Set(store.At("before"), before),
			store.And(unchanged, store.Equal(store.At("before"), r.Previous))
	}
	return []store.Write{
		r.updateWrite(store.ErrStale, change).If(unchanged),
		operation.Create(operation.Start{
			ID: "clean-" + r.Name + "-" + idSuffix, Kind: Clean, Subject: r.Name, AccountID: r.AccountID,
			Input: CleanInput{Deployment: r.Name}, NotBefore: now.Add(MinAge + cleanDelay),
		}, now),
	}
}

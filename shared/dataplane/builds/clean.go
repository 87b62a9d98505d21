package builds

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

const (
	stateRemove = "remove"
	// batchSize is the maximum number of objects that one step removes.
	batchSize = 200
)

// remove deletes objects that a deployment does not need. If the deployment was deleted, these are all its objects.
// Otherwise these are the objects to which the deployment's record does not refer, and whose age is at least
// deployments.MinAge.
func (b *Builder) remove(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.CleanInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	var r deployments.Record
	if !in.All {
		var err error
		r, err = deployments.Read(ctx, b.options.Table, in.Deployment)
		if errors.Is(err, store.ErrNotFound) {
			return operation.Result{}, nil // the operation of the deletion removes the objects
		}
		if err != nil {
			return operation.Result{}, err
		}
	}
	remaining := batchSize
	for _, root := range []string{blob.SourceKey(""), blob.ArtifactKey("")} {
		for o, err := range b.options.Objects.List(ctx, root+in.Deployment+"/") {
			if err != nil {
				return operation.Result{}, fmt.Errorf("list what a deployment has: %w", err)
			}
			if !in.All && (r.Needed(strings.TrimPrefix(o.Key, root)) || s.Now.Sub(o.Modified) < deployments.MinAge) {
				continue
			}
			if remaining == 0 {
				return operation.Result{Repeat: true}, nil
			}
			remaining--
			if err := b.options.Objects.Delete(ctx, o.Key); err != nil {
				return operation.Result{}, fmt.Errorf("remove what a deployment had: %w", err)
			}
		}
	}
	return operation.Result{}, nil
}

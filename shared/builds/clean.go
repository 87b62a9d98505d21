package builds

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	removing = "remove"
	// batchSize is how many objects one step removes.
	batchSize = 200
)

// remove deletes from the bucket what a deployment does not need: everything
// after it was deleted, else what belongs to builds that nobody returns to.
func (b *Builder) remove(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.CleanInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	var r deployments.Record
	if !in.All {
		var err error
		r, err = deployments.Read(ctx, b.o.Table, in.Deployment)
		if errors.Is(err, store.ErrNotFound) {
			return operation.Result{}, nil // its deletion has its own operation
		}
		if err != nil {
			return operation.Result{}, err
		}
	}
	left := batchSize
	for _, root := range []string{blob.SourceKey(""), blob.ArtifactKey("")} {
		for o, err := range b.o.Objects.List(ctx, root+in.Deployment+"/") {
			if err != nil {
				return operation.Result{}, fmt.Errorf("list what a deployment has: %w", err)
			}
			if !in.All && (r.Needed(strings.TrimPrefix(o.Key, root)) || s.Now.Sub(o.Modified) < deployments.MinAge) {
				continue
			}
			if left == 0 {
				return operation.Result{Again: true}, nil
			}
			left--
			if err := b.o.Objects.Delete(ctx, o.Key); err != nil {
				return operation.Result{}, fmt.Errorf("remove what a deployment had: %w", err)
			}
		}
	}
	return operation.Result{}, nil
}

package keybuckets

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{keys.Open(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read), update.HandledBy(h.update),
		remove.HandledBy(h.remove),
	}
}

type handlers struct{ service *keys.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondPage(in.Page, view)(h.service.ListBuckets(ctx, auth.OwnerFrom(ctx), in.StorePage()))
}

func (h handlers) create(ctx context.Context, in *createIn) (*bucketOut, error) {
	return api.Respond(view)(h.service.CreateBucket(ctx, auth.OwnerFrom(ctx), keys.NewBucket{
		Name: in.Body.Name, Description: in.Body.Description.Value, Tags: in.Body.Tags.Value,
		Unretrievable: in.Body.IsRetrievable.Set && !in.Body.IsRetrievable.Null && !in.Body.IsRetrievable.Value,
	}))
}

func (h handlers) read(ctx context.Context, in *bucketIn) (*bucketOut, error) {
	return api.Respond(view)(h.service.ReadBucket(ctx, in.locator(ctx)))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*bucketOut, error) {
	return api.Respond(view)(h.service.UpdateBucket(ctx, in.locator(ctx), keys.BucketPatch{
		Description: in.Body.Description.Patch(), Tags: in.Body.Tags.Patch(),
	}))
}

func (h handlers) remove(ctx context.Context, in *bucketIn) (*api.NoContent, error) {
	return nil, h.service.DeleteBucket(ctx, in.locator(ctx))
}

func (p BucketPath) locator(ctx context.Context) keys.BucketLocator {
	return keys.BucketLocator{Owner: auth.OwnerFrom(ctx), Bucket: p.BucketName}
}

func view(b keys.Bucket) bucket {
	return bucket{
		ID: b.ID, Name: b.Name, Description: b.Description, Tags: b.Tags, IsRetrievable: b.Retrievable, Token: b.Token,
		CreatedOn: api.Timestamp(b.CreatedOn), UpdatedOn: api.Timestamp(b.UpdatedOn),
	}
}

package keybuckets

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
)

// Bind gives the group's routes.
func Bind(p installation.Parts) []api.Route {
	h := handlers{keys.Open(p)}
	return []api.Route{
		list.To(h.list), create.To(h.create), read.To(h.read), update.To(h.update), remove.To(h.remove),
	}
}

type handlers struct{ service *keys.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	limit, offset := in.Window()
	found, total, err := h.service.ListBuckets(ctx, owner(ctx), keys.Page{Limit: limit, Offset: offset})
	if err != nil {
		return nil, err
	}
	shown := make([]bucket, len(found))
	for i, b := range found {
		shown[i] = show(b)
	}
	return &listOut{Body: api.NewList(shown, in.Page, total)}, nil
}

func (h handlers) create(ctx context.Context, in *createIn) (*bucketOut, error) {
	return answer(h.service.CreateBucket(ctx, owner(ctx), keys.NewBucket{
		Name: in.Body.Name, Description: in.Body.Description.Value, Tags: in.Body.Tags.Value,
		Unretrievable: in.Body.IsRetrievable.Set && !in.Body.IsRetrievable.Null && !in.Body.IsRetrievable.Value,
	}))
}

func (h handlers) read(ctx context.Context, in *bucketIn) (*bucketOut, error) {
	return answer(h.service.ReadBucket(ctx, in.at(ctx)))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*bucketOut, error) {
	return answer(h.service.UpdateBucket(ctx, in.at(ctx), keys.BucketPatch{
		Description: patch(in.Body.Description), Tags: patch(in.Body.Tags),
	}))
}

func (h handlers) remove(ctx context.Context, in *bucketIn) (*api.NoContent, error) {
	return nil, h.service.DeleteBucket(ctx, in.at(ctx))
}

func owner(ctx context.Context) keys.Owner {
	p := auth.From(ctx)
	return keys.Owner{AccountID: p.AccountID, Account: p.AccountName, Viewer: p}
}

func (p BucketPath) at(ctx context.Context) keys.BucketAt {
	return keys.BucketAt{Owner: owner(ctx), Bucket: p.BucketName}
}

// patch is what an optional field of a body does.
func patch[T any](o api.Optional[T]) keys.Patch[T] {
	switch {
	case !o.Set:
		return keys.Patch[T]{}
	case o.Null:
		return keys.Clear[T]()
	}
	return keys.To(o.Value)
}

func answer(b keys.Bucket, err error) (*bucketOut, error) {
	if err != nil {
		return nil, err
	}
	return &bucketOut{Body: show(b)}, nil
}

func show(b keys.Bucket) bucket {
	return bucket{
		ID: b.ID, Name: b.Name, Description: b.Description, Tags: b.Tags, IsRetrievable: b.Retrievable, Token: b.Token,
		CreatedOn: api.Timestamp(b.CreatedOn), UpdatedOn: api.Timestamp(b.UpdatedOn),
	}
}

package consumers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
)

// Bind gives the group's routes.
func Bind(p installation.Parts) []api.Route {
	h := handlers{keys.Open(p)}
	return []api.Route{
		list.To(h.list), create.To(h.create), read.To(h.read), update.To(h.update), remove.To(h.remove), roll.To(h.roll),
		listKeys.To(h.listKeys), createKey.To(h.createKey), createKeys.To(h.createKeys),
		readKey.To(h.readKey), updateKey.To(h.updateKey), removeKey.To(h.removeKey),
		listManagers.To(h.listManagers), addManager.To(h.addManager), removeManager.To(h.removeManager),
	}
}

type handlers struct{ service *keys.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	filter := keys.Filter{Tags: in.Tags, ManagerEmail: in.ManagerEmail}
	found, total, err := h.service.ListConsumers(ctx, in.BucketPath.at(ctx), filter, page(in.Page), in.include())
	if err != nil {
		return nil, err
	}
	return &listOut{Body: api.NewList(each(found, showConsumer), in.Page, total)}, nil
}

func (h handlers) create(ctx context.Context, in *createIn) (*consumerOut, error) {
	return answerConsumer(h.service.CreateConsumer(ctx, in.BucketPath.at(ctx), keys.NewConsumer{
		Name: in.Body.Name, Description: in.Body.Description.Value, Tags: in.Body.Tags.Value,
		Metadata: json.RawMessage(in.Body.Metadata.Value),
		Managers: each(in.Body.Managers.Value, func(m newManager) keys.NewManager { return keys.NewManager(m) }),
		WithKey:  in.WithAPIKey,
	}))
}

func (h handlers) read(ctx context.Context, in *readIn) (*consumerOut, error) {
	return answerConsumer(h.service.ReadConsumer(ctx, in.ConsumerPath.at(ctx, in.Tags), in.include()))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*consumerOut, error) {
	return answerConsumer(h.service.UpdateConsumer(ctx, in.ConsumerPath.at(ctx, in.Tags), keys.ConsumerPatch{
		Description: patch(in.Body.Description, same), Tags: patch(in.Body.Tags, same),
		Metadata: patch(in.Body.Metadata, func(m metadata) json.RawMessage { return json.RawMessage(m) }),
	}))
}

func (h handlers) remove(ctx context.Context, in *consumerIn) (*api.NoContent, error) {
	return nil, h.service.DeleteConsumer(ctx, in.ConsumerPath.at(ctx, in.Tags))
}

func (h handlers) roll(ctx context.Context, in *rollIn) (*api.NoContent, error) {
	return nil, h.service.RollKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.Body.ExpiresOn.Time)
}

func (h handlers) listKeys(ctx context.Context, in *listKeysIn) (*keysOut, error) {
	found, total, err := h.service.ListKeys(ctx, in.ConsumerPath.at(ctx, in.Tags), page(in.Page), keys.Format(in.KeyFormat.KeyFormat))
	if err != nil {
		return nil, err
	}
	return &keysOut{Body: api.NewList(each(found, showKey), in.Page, total)}, nil
}

func (h handlers) createKey(ctx context.Context, in *createKeyIn) (*keyOut, error) {
	var body newKey
	if in.Body != nil {
		body = *in.Body
	}
	return answerKey(h.service.CreateKey(ctx, in.ConsumerPath.at(ctx, in.Tags), body.key()))
}

func (h handlers) createKeys(ctx context.Context, in *createKeysIn) (*createdKeysOut, error) {
	made, err := h.service.CreateKeys(ctx, in.ConsumerPath.at(ctx, in.Tags), each(in.Body, newKey.key))
	if err != nil {
		return nil, err
	}
	out := new(createdKeysOut)
	out.Body.Data = each(made, showKey)
	return out, nil
}

func (h handlers) readKey(ctx context.Context, in *readKeyIn) (*keyOut, error) {
	return answerKey(h.service.ReadKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.KeyID, keys.Format(in.KeyFormat.KeyFormat)))
}

func (h handlers) updateKey(ctx context.Context, in *updateKeyIn) (*keyOut, error) {
	return answerKey(h.service.UpdateKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.KeyID, keys.KeyPatch{
		ExpiresOn:   patch(in.Body.ExpiresOn, func(t timestamp) time.Time { return t.Time }),
		Description: patch(in.Body.Description, same), Text: in.Body.Key.Value,
	}))
}

func (h handlers) removeKey(ctx context.Context, in *keyIn) (*api.NoContent, error) {
	return nil, h.service.DeleteKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.KeyID)
}

func (h handlers) listManagers(ctx context.Context, in *listManagersIn) (*managersOut, error) {
	found, total, err := h.service.ListManagers(ctx, in.ConsumerPath.at(ctx, nil), page(in.Page))
	if err != nil {
		return nil, err
	}
	return &managersOut{Body: api.NewList(each(found, showManager), in.Page, total)}, nil
}

func (h handlers) addManager(ctx context.Context, in *addManagerIn) (*managerOut, error) {
	m, err := h.service.AddManager(ctx, in.ConsumerPath.at(ctx, nil), keys.NewManager{Email: in.Body.Email, Sub: in.Body.Sub})
	if err != nil {
		return nil, err
	}
	return &managerOut{Body: showManager(m)}, nil
}

func (h handlers) removeManager(ctx context.Context, in *managerIn) (*api.NoContent, error) {
	return nil, h.service.DeleteManager(ctx, in.ConsumerPath.at(ctx, nil), in.ManagerID)
}

package consumers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{keys.Open(p), api.OpenCursors(p)}
	return []api.Route{
		list.To(h.list), create.To(h.create), read.To(h.read), update.To(h.update), remove.To(h.remove), roll.To(h.roll),
		listKeys.To(h.listKeys), createKey.To(h.createKey), createKeys.To(h.createKeys),
		readKey.To(h.readKey), updateKey.To(h.updateKey), removeKey.To(h.removeKey),
		listManagers.To(h.listManagers), addManager.To(h.addManager), readManager.To(h.readManager), removeManager.To(h.removeManager),
	}
}

type handlers struct {
	service *keys.Service
	cursors api.Cursors
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	page, err := h.cursors.Part(ctx, in.Page, in.After)
	if err != nil {
		return nil, err
	}
	filter := keys.Filter{Tags: in.Tags, ManagerEmail: in.ManagerEmail, NamePrefix: in.NamePrefix}
	include := in.include()
	include.Fits = func() func(keys.Consumer) bool { return api.Fits(viewConsumer) }
	name := func(c keys.Consumer) string { return c.Name }
	return api.AnswerCursors(ctx, h.cursors, in.Page, in.After, viewConsumer, name)(h.service.ListConsumers(ctx, in.BucketPath.at(ctx), filter, page, include))
}

func (h handlers) create(ctx context.Context, in *createIn) (*consumerOut, error) {
	return api.Answer(viewConsumer)(h.service.CreateConsumer(ctx, in.BucketPath.at(ctx), keys.NewConsumer{
		Name: in.Body.Name, Description: in.Body.Description.Value, Tags: in.Body.Tags.Value,
		Metadata: json.RawMessage(in.Body.Metadata.Value),
		Managers: api.Each(in.Body.Managers.Value, func(m newManager) keys.NewManager { return keys.NewManager(m) }),
		WithKey:  in.WithAPIKey,
	}))
}

func (h handlers) read(ctx context.Context, in *readIn) (*consumerOut, error) {
	return api.Answer(viewConsumer)(h.service.ReadConsumer(ctx, in.ConsumerPath.at(ctx, in.Tags), in.include()))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*consumerOut, error) {
	return api.Answer(viewConsumer)(h.service.UpdateConsumer(ctx, in.ConsumerPath.at(ctx, in.Tags), keys.ConsumerPatch{
		Description: in.Body.Description.Patch(), Tags: in.Body.Tags.Patch(),
		Metadata: api.PatchOf(in.Body.Metadata, func(m metadata) json.RawMessage { return json.RawMessage(m) }),
	}))
}

func (h handlers) remove(ctx context.Context, in *consumerIn) (*api.NoContent, error) {
	return nil, h.service.DeleteConsumer(ctx, in.ConsumerPath.at(ctx, in.Tags))
}

func (h handlers) roll(ctx context.Context, in *rollIn) (*api.NoContent, error) {
	return nil, h.service.RollKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.Body.ExpiresOn.Time)
}

func (h handlers) listKeys(ctx context.Context, in *listKeysIn) (*keysOut, error) {
	page, err := h.cursors.Part(ctx, in.Page, in.After)
	if err != nil {
		return nil, err
	}
	id := func(k keys.Key) string { return k.ID }
	return api.AnswerCursors(ctx, h.cursors, in.Page, in.After, viewKey, id)(h.service.ListKeys(ctx, in.ConsumerPath.at(ctx, in.Tags), page, keys.Format(in.KeyFormat.KeyFormat)))
}

func (h handlers) createKey(ctx context.Context, in *createKeyIn) (*keyOut, error) {
	var body newKey
	if in.Body != nil {
		body = *in.Body
	}
	return api.Answer(viewKey)(h.service.CreateKey(ctx, in.ConsumerPath.at(ctx, in.Tags), body.key()))
}

func (h handlers) createKeys(ctx context.Context, in *createKeysIn) (*createdKeysOut, error) {
	return api.Answer(viewKeys)(h.service.CreateKeys(ctx, in.ConsumerPath.at(ctx, in.Tags), api.Each(in.Body, newKey.key)))
}

func (h handlers) readKey(ctx context.Context, in *readKeyIn) (*keyOut, error) {
	return api.Answer(viewKey)(h.service.ReadKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.KeyID, keys.Format(in.KeyFormat.KeyFormat)))
}

func (h handlers) updateKey(ctx context.Context, in *updateKeyIn) (*keyOut, error) {
	return api.Answer(viewKey)(h.service.UpdateKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.KeyID, keys.KeyPatch{
		ExpiresOn:   api.PatchOf(in.Body.ExpiresOn, func(t timestamp) time.Time { return t.Time }),
		Description: in.Body.Description.Patch(), Text: in.Body.Key.Value,
	}))
}

func (h handlers) removeKey(ctx context.Context, in *keyIn) (*api.NoContent, error) {
	return nil, h.service.DeleteKey(ctx, in.ConsumerPath.at(ctx, in.Tags), in.KeyID)
}

func (h handlers) listManagers(ctx context.Context, in *listManagersIn) (*managersOut, error) {
	return api.AnswerPage(in.Page, viewManager)(h.service.ListManagers(ctx, in.ConsumerPath.at(ctx, nil), in.Part()))
}

func (h handlers) addManager(ctx context.Context, in *addManagerIn) (*managerOut, error) {
	return api.Answer(viewManager)(h.service.AddManager(ctx, in.ConsumerPath.at(ctx, nil), keys.NewManager{Email: in.Body.Email, Sub: in.Body.Sub}))
}

func (h handlers) readManager(ctx context.Context, in *managerIn) (*personOut, error) {
	return api.Answer(viewPerson)(h.service.ReadManager(ctx, in.ConsumerPath.at(ctx, nil), in.ManagerID))
}

func (h handlers) removeManager(ctx context.Context, in *managerIn) (*api.NoContent, error) {
	return nil, h.service.DeleteManager(ctx, in.ConsumerPath.at(ctx, nil), in.ManagerID)
}

package consumers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{keys.Open(p), api.OpenCursors(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read), update.HandledBy(h.update),
		remove.HandledBy(h.remove), roll.HandledBy(h.roll),
		listKeys.HandledBy(h.listKeys), createKey.HandledBy(h.createKey), createKeys.HandledBy(h.createKeys),
		readKey.HandledBy(h.readKey), updateKey.HandledBy(h.updateKey), removeKey.HandledBy(h.removeKey),
		listManagers.HandledBy(h.listManagers), addManager.HandledBy(h.addManager), readManager.HandledBy(h.readManager),
		removeManager.HandledBy(h.removeManager),
	}
}

type handlers struct {
	service *keys.Service
	cursors api.Cursors
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	page, err := h.cursors.StorePage(ctx, in.Page, in.After)
	if err != nil {
		return nil, err
	}
	filter := keys.Filter{Tags: in.Tags, ManagerEmail: in.ManagerEmail, NamePrefix: in.NamePrefix}
	include := in.include()
	include.Fits = func() func(keys.Consumer) bool { return api.Fits(viewConsumer) }
	nameOf := func(c keys.Consumer) string { return c.Name }
	return api.RespondCursorPage(ctx, h.cursors, in.Page, in.After, viewConsumer,
		nameOf)(h.service.ListConsumers(ctx, in.BucketPath.locator(ctx), filter, page, include))
}

func (h handlers) create(ctx context.Context, in *createIn) (*consumerOut, error) {
	return api.Respond(viewConsumer)(h.service.CreateConsumer(ctx, in.BucketPath.locator(ctx), keys.NewConsumer{
		Name: in.Body.Name, Description: in.Body.Description.Value, Tags: in.Body.Tags.Value,
		Metadata: json.RawMessage(in.Body.Metadata.Value),
		Managers: api.Map(in.Body.Managers.Value, func(m newManager) keys.NewManager { return keys.NewManager(m) }),
		WithKey:  in.WithAPIKey,
	}))
}

func (h handlers) read(ctx context.Context, in *readIn) (*consumerOut, error) {
	return api.Respond(viewConsumer)(h.service.ReadConsumer(ctx, in.ConsumerPath.locator(ctx, in.Tags), in.include()))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*consumerOut, error) {
	patch := keys.ConsumerPatch{
		Description: in.Body.Description.Patch(), Tags: in.Body.Tags.Patch(),
		Metadata: api.PatchWith(in.Body.Metadata, func(m metadata) json.RawMessage { return json.RawMessage(m) }),
	}
	return api.Respond(viewConsumer)(h.service.UpdateConsumer(ctx, in.ConsumerPath.locator(ctx, in.Tags), patch))
}

func (h handlers) remove(ctx context.Context, in *consumerIn) (*api.NoContent, error) {
	return nil, h.service.DeleteConsumer(ctx, in.ConsumerPath.locator(ctx, in.Tags))
}

func (h handlers) roll(ctx context.Context, in *rollIn) (*api.NoContent, error) {
	return nil, h.service.RollKey(ctx, in.ConsumerPath.locator(ctx, in.Tags), in.Body.ExpiresOn.Time)
}

func (h handlers) listKeys(ctx context.Context, in *listKeysIn) (*keysOut, error) {
	page, err := h.cursors.StorePage(ctx, in.Page, in.After)
	if err != nil {
		return nil, err
	}
	idOf := func(k keys.Key) string { return k.ID }
	return api.RespondCursorPage(ctx, h.cursors, in.Page, in.After, viewKey,
		idOf)(h.service.ListKeys(ctx, in.ConsumerPath.locator(ctx, in.Tags), page, keys.Format(in.KeyFormat.KeyFormat)))
}

func (h handlers) createKey(ctx context.Context, in *createKeyIn) (*keyOut, error) {
	var body newKey
	if in.Body != nil {
		body = *in.Body
	}
	return api.Respond(viewKey)(h.service.CreateKey(ctx, in.ConsumerPath.locator(ctx, in.Tags), body.toService()))
}

func (h handlers) createKeys(ctx context.Context, in *createKeysIn) (*createdKeysOut, error) {
	return api.Respond(viewKeys)(h.service.CreateKeys(ctx, in.ConsumerPath.locator(ctx, in.Tags),
		api.Map(in.Body, newKey.toService)))
}

func (h handlers) readKey(ctx context.Context, in *readKeyIn) (*keyOut, error) {
	return api.Respond(viewKey)(h.service.ReadKey(ctx, in.ConsumerPath.locator(ctx, in.Tags), in.KeyID,
		keys.Format(in.KeyFormat.KeyFormat)))
}

func (h handlers) updateKey(ctx context.Context, in *updateKeyIn) (*keyOut, error) {
	return api.Respond(viewKey)(h.service.UpdateKey(ctx, in.ConsumerPath.locator(ctx, in.Tags), in.KeyID, keys.KeyPatch{
		ExpiresOn:   api.PatchWith(in.Body.ExpiresOn, func(t timestamp) time.Time { return t.Time }),
		Description: in.Body.Description.Patch(), Text: in.Body.Key.Value,
	}))
}

func (h handlers) removeKey(ctx context.Context, in *keyIn) (*api.NoContent, error) {
	return nil, h.service.DeleteKey(ctx, in.ConsumerPath.locator(ctx, in.Tags), in.KeyID)
}

func (h handlers) listManagers(ctx context.Context, in *listManagersIn) (*managersOut, error) {
	return api.RespondPage(in.Page, viewManager)(h.service.ListManagers(ctx, in.ConsumerPath.locator(ctx, nil),
		in.StorePage()))
}

func (h handlers) addManager(ctx context.Context, in *addManagerIn) (*managerOut, error) {
	return api.Respond(viewManager)(h.service.AddManager(ctx, in.ConsumerPath.locator(ctx, nil),
		keys.NewManager{Email: in.Body.Email, Sub: in.Body.Sub}))
}

func (h handlers) readManager(ctx context.Context, in *managerIn) (*personOut, error) {
	return api.Respond(viewPerson)(h.service.ReadManager(ctx, in.ConsumerPath.locator(ctx, nil), in.ManagerID))
}

func (h handlers) removeManager(ctx context.Context, in *managerIn) (*api.NoContent, error) {
	return nil, h.service.DeleteManager(ctx, in.ConsumerPath.locator(ctx, nil), in.ManagerID)
}

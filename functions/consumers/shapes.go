package consumers

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// The functions in this file convert between the API's types and the service's types.

func (p BucketPath) locator(ctx context.Context) keys.BucketLocator {
	return keys.BucketLocator{Owner: auth.OwnerFrom(ctx), Bucket: p.BucketName}
}

func (p ConsumerPath) locator(ctx context.Context, tags map[string]string) keys.ConsumerLocator {
	return keys.ConsumerLocator{BucketLocator: p.BucketPath.locator(ctx), Consumer: p.ConsumerName, Tags: tags}
}

func (i IncludeQuery) include() keys.Include {
	return keys.Include{
		Keys: i.APIKeys, Managers: i.Managers, Invites: i.ManagerInvites,
		Format: keys.Format(i.KeyFormat.KeyFormat),
	}
}

func (n newKey) toService() keys.NewKey {
	out := keys.NewKey{Description: n.Description.Value, Text: n.Key.Value}
	if n.ExpiresOn.Set && !n.ExpiresOn.Null {
		out.ExpiresOn = &n.ExpiresOn.Value.Time
	}
	return out
}

func viewConsumer(c keys.Consumer) consumer {
	return consumer{
		ID: c.ID, Name: c.Name, Description: c.Description, Tags: c.Tags, Metadata: metadata(c.Metadata),
		APIKeys: listOrNil(c.Keys, viewKey), Managers: listOrNil(c.Managers, viewManager),
		ManagerInvites: listOrNil(c.Invites, viewInvite),
		CreatedOn:      api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}

// listOrNil converts the items of a list. It returns nil for a nil list: the caller has not requested the list, so the
// response does not contain it.
func listOrNil[From, To any](items []From, convert func(From) To) *[]To {
	if items == nil {
		return nil
	}
	return new(api.Map(items, convert))
}

func viewKey(k keys.Key) key {
	out := key{
		ID: k.ID, Description: k.Description, Key: k.Text,
		CreatedOn: api.Timestamp(k.CreatedOn), UpdatedOn: api.Timestamp(k.UpdatedOn),
	}
	if k.ExpiresOn != nil {
		out.ExpiresOn = new(api.Timestamp(*k.ExpiresOn))
	}
	return out
}

func viewKeys(created []keys.Key) createdKeys { return createdKeys{Data: api.Map(created, viewKey)} }

func viewManager(m keys.Manager) manager {
	return manager{ID: m.ID, Email: m.Email, Sub: m.Sub, CreatedOn: api.Timestamp(m.CreatedOn)}
}

func viewPerson(p keys.Person) person {
	return person{ID: p.ID, Email: p.Email, Sub: p.Sub, CreatedOn: api.Timestamp(p.CreatedOn)}
}

func viewInvite(i keys.Invite) invite {
	return invite{ID: i.ID, Email: i.Email, CreatedOn: api.Timestamp(i.CreatedOn)}
}

package consumers

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/keys"
)

// Below is the way between what the API speaks and what the service does.

func (p BucketPath) at(ctx context.Context) keys.BucketAt {
	return keys.BucketAt{Owner: auth.OwnerFrom(ctx), Bucket: p.BucketName}
}

func (p ConsumerPath) at(ctx context.Context, tags map[string]string) keys.ConsumerAt {
	return keys.ConsumerAt{BucketAt: p.BucketPath.at(ctx), Consumer: p.ConsumerName, Tags: tags}
}

func (i Including) include() keys.Include {
	return keys.Include{
		Keys: i.APIKeys, Managers: i.Managers, Invites: i.ManagerInvites,
		Format: keys.Format(i.KeyFormat.KeyFormat),
	}
}

func (n newKey) key() keys.NewKey {
	out := keys.NewKey{Description: n.Description.Value, Text: n.Key.Value}
	if n.ExpiresOn.Set && !n.ExpiresOn.Null {
		out.ExpiresOn = &n.ExpiresOn.Value.Time
	}
	return out
}

func viewConsumer(c keys.Consumer) consumer {
	return consumer{
		ID: c.ID, Name: c.Name, Description: c.Description, Tags: c.Tags, Metadata: metadata(c.Metadata),
		APIKeys: listOrNil(c.Keys, viewKey), Managers: listOrNil(c.Managers, viewManager), ManagerInvites: listOrNil(c.Invites, viewInvite),
		CreatedOn: api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}

// listOrNil converts a list, and returns nil for one that was not asked for.
func listOrNil[From, To any](all []From, turn func(From) To) *[]To {
	if all == nil {
		return nil
	}
	return new(api.Each(all, turn))
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

func viewKeys(created []keys.Key) createdKeys { return createdKeys{Data: api.Each(created, viewKey)} }

func viewManager(m keys.Manager) manager {
	return manager{ID: m.ID, Email: m.Email, Sub: m.Sub, CreatedOn: api.Timestamp(m.CreatedOn)}
}

func viewPerson(p keys.Person) person {
	return person{ID: p.ID, Email: p.Email, Sub: p.Sub, CreatedOn: api.Timestamp(p.CreatedOn)}
}

func viewInvite(i keys.Invite) invite {
	return invite{ID: i.ID, Email: i.Email, CreatedOn: api.Timestamp(i.CreatedOn)}
}

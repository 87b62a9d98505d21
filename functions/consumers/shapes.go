package consumers

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/keys"
)

// Below is the way between what the API speaks and what the service does.

func (p BucketPath) at(ctx context.Context) keys.BucketAt {
	caller := auth.From(ctx)
	owner := keys.Owner{AccountID: caller.AccountID, Account: caller.AccountName, Viewer: caller}
	return keys.BucketAt{Owner: owner, Bucket: p.BucketName}
}

func (p ConsumerPath) at(ctx context.Context, tags map[string]string) keys.ConsumerAt {
	return keys.ConsumerAt{BucketAt: p.BucketPath.at(ctx), Consumer: p.ConsumerName, Tags: tags}
}

func page(p api.Page) keys.Page {
	limit, offset := p.Window()
	return keys.Page{Limit: limit, Offset: offset}
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

// patch is what an optional field of a body does, with its value turned into
// what the service takes.
func patch[From, To any](o api.Optional[From], turn func(From) To) keys.Patch[To] {
	switch {
	case !o.Set:
		return keys.Patch[To]{}
	case o.Null:
		return keys.Clear[To]()
	}
	return keys.To(turn(o.Value))
}

func same[T any](v T) T { return v }

func each[From, To any](all []From, turn func(From) To) []To {
	out := make([]To, len(all))
	for i, v := range all {
		out[i] = turn(v)
	}
	return out
}

func answerConsumer(c keys.Consumer, err error) (*consumerOut, error) {
	if err != nil {
		return nil, err
	}
	return &consumerOut{Body: showConsumer(c)}, nil
}

func showConsumer(c keys.Consumer) consumer {
	return consumer{
		ID: c.ID, Name: c.Name, Description: c.Description, Tags: c.Tags, Metadata: metadata(c.Metadata),
		APIKeys: given(c.Keys, showKey), Managers: given(c.Managers, showManager), ManagerInvites: given(c.Invites, showInvite),
		CreatedOn: api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}

// given tells a list that is empty from one that was not asked for.
func given[From, To any](all []From, turn func(From) To) *[]To {
	if all == nil {
		return nil
	}
	return new(each(all, turn))
}

func answerKey(k keys.Key, err error) (*keyOut, error) {
	if err != nil {
		return nil, err
	}
	return &keyOut{Body: showKey(k)}, nil
}

func showKey(k keys.Key) key {
	out := key{
		ID: k.ID, Description: k.Description, Key: k.Text,
		CreatedOn: api.Timestamp(k.CreatedOn), UpdatedOn: api.Timestamp(k.UpdatedOn),
	}
	if k.ExpiresOn != nil {
		out.ExpiresOn = new(api.Timestamp(*k.ExpiresOn))
	}
	return out
}

func showManager(m keys.Manager) manager {
	return manager{ID: m.ID, Email: m.Email, Sub: m.Sub, CreatedOn: api.Timestamp(m.CreatedOn)}
}

func showInvite(i keys.Invite) invite {
	return invite{ID: i.ID, Email: i.Email, CreatedOn: api.Timestamp(i.CreatedOn)}
}

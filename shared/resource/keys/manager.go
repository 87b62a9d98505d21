package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Manager is a person who can see a consumer. Lists of managers begin with the newest.
type Manager struct {
	store.UnknownAttributes

	ID        string    `dynamodbav:"id"`
	Email     string    `dynamodbav:"email"`
	Sub       string    `dynamodbav:"sub"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// Invite is the address of a person who is invited to become a manager. Lists of invites begin with the newest.
type Invite struct {
	store.UnknownAttributes

	ID        string    `dynamodbav:"id"`
	Email     string    `dynamodbav:"email"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// NewManager is the input for a new manager or a new invite. An invite has no Sub.
type NewManager struct {
	Email, Sub string
	// Invite says that the entry is an invite. Only CreateConsumer accepts invites.
	Invite bool
}

// Person is a manager or an invite.
type Person struct {
	ID, Email string
	// Sub is nil for an invite.
	Sub       *string
	CreatedOn time.Time
}

func (p *problems) managers(in []NewManager) {
	if len(in) > maxManagers {
		p.Add("managers", "has more than %d entries", maxManagers)
		return
	}
	seen := make(map[string]bool)
	for i, m := range in {
		location := fmt.Sprintf("managers[%d]", i)
		if m.Invite {
			p.email(location, m.Email)
		} else {
			p.email(location+".email", m.Email)
			p.sub(location+".sub", m.Sub)
		}
		address := strings.ToLower(m.Email)
		if seen[address] {
			p.Add(location, "repeats the address of another entry")
		}
		seen[address] = true
	}
}

// addManagers adds managers and invites to the record of a new consumer. The last of them becomes the first of its
// list.
func (s *Service) addManagers(c *consumerRecord, in []NewManager, now time.Time) {
	for _, m := range in {
		if m.Invite {
			c.Invites = slices.Insert(c.Invites, 0, Invite{ID: s.parts.IDs.New("minv", 24), Email: m.Email, CreatedOn: now})
			continue
		}
		c.Managers = slices.Insert(c.Managers, 0, Manager{
			ID: s.parts.IDs.New("eusr", 24), Email: m.Email, Sub: m.Sub,
			CreatedOn: now,
		})
	}
}

// ListManagers returns a page of a consumer's managers, the newest first, and their total number.
func (s *Service) ListManagers(ctx context.Context, at ConsumerLocator, page store.Page) ([]Manager, int, error) {
	v, err := s.load(ctx, target{ConsumerLocator: at})
	if err != nil {
		return nil, 0, err
	}
	all := v.consumer.Managers
	from := min(page.Offset, len(all))
	return all[from:min(from+page.Limit, len(all))], len(all), nil
}

// ReadManager returns the manager or the invite with an id. It returns NotFound if there is none.
func (s *Service) ReadManager(ctx context.Context, at ConsumerLocator, id string) (Person, error) {
	v, err := s.load(ctx, target{ConsumerLocator: at})
	if err != nil {
		return Person{}, err
	}
	for _, m := range v.consumer.Managers {
		if m.ID == id {
			return Person{ID: m.ID, Email: m.Email, Sub: &m.Sub, CreatedOn: m.CreatedOn}, nil
		}
	}
	for _, i := range v.consumer.Invites {
		if i.ID == id {
			return Person{ID: i.ID, Email: i.Email, CreatedOn: i.CreatedOn}, nil
		}
	}
	return Person{}, errNoManager
}

// AddManager adds a manager. It deletes an invite with the same address. It returns Conflict if a manager with the
// address exists, or if the consumer already has maxManagers managers and other invites.
func (s *Service) AddManager(ctx context.Context, at ConsumerLocator, in NewManager) (Manager, error) {
	var invalid problems
	invalid.email("email", in.Email)
	invalid.sub("sub", in.Sub)
	if err := invalid.Err(); err != nil {
		return Manager{}, err
	}
	created := Manager{ID: s.parts.IDs.New("eusr", 24), Email: in.Email, Sub: in.Sub, CreatedOn: s.now()}
	err := s.changeManagers(ctx, at, created.ID, func(c *consumerRecord) error {
		if slices.ContainsFunc(c.Managers, func(m Manager) bool { return strings.EqualFold(m.Email, in.Email) }) {
			return errManagerInUse
		}
		c.Invites = slices.DeleteFunc(slices.Clone(c.Invites), func(i Invite) bool {
			return strings.EqualFold(i.Email, in.Email)
		})
		if len(c.Managers)+len(c.Invites) >= maxManagers {
			return errManagersFull
		}
		c.Managers = slices.Insert(slices.Clone(c.Managers), 0, created)
		return nil
	})
	return created, err
}

var (
	errManagerInUse = fault.New(fault.Conflict,
		"The consumer has a manager of this email address. Delete that one first, or take another address.")
	errManagersFull = fault.New(fault.Conflict,
		"The consumer has %d managers and invites, the most it can have. Delete one first.", maxManagers)
)

// DeleteManager deletes the manager or the invite with an id.
func (s *Service) DeleteManager(ctx context.Context, at ConsumerLocator, id string) error {
	return s.changeManagers(ctx, at, id, func(c *consumerRecord) error {
		managers := slices.DeleteFunc(slices.Clone(c.Managers), func(m Manager) bool { return m.ID == id })
		invites := slices.DeleteFunc(slices.Clone(c.Invites), func(i Invite) bool { return i.ID == id })
		if len(managers)+len(invites) == len(c.Managers)+len(c.Invites) {
			return errNoManager
		}
		c.Managers, c.Invites = managers, invites
		return nil
	})
}

// changeManagers changes the managers and invites of a consumer. change must replace the lists in the record, and not
// change their elements. id is the id of the added or deleted manager or invite, for the audit record.
func (s *Service) changeManagers(
	ctx context.Context, at ConsumerLocator, id string, change func(*consumerRecord) error,
) error {
	return s.table.RunInTx(ctx, func(ctx context.Context) error {
		v, err := s.load(ctx, target{ConsumerLocator: at})
		if err != nil {
			return err
		}
		c := v.consumer
		if err := change(&c); err != nil {
			return err
		}
		writes := append([]store.Write{
			v.consumer.versionedWrite(v.generation,
				setOrRemove("managers", c.Managers, len(c.Managers) == 0),
				setOrRemove("invites", c.Invites, len(c.Invites) == 0),
				store.Set(store.At("updatedOn"), s.now())),
			audit.Record(ctx, audit.Resource{Type: "manager", ID: id}, c.resource()),
		}, c.indexWrites(v.generation, v.consumer)...)
		return s.table.Commit(ctx, writes...)
	})
}

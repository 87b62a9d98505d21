package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Manager is a person who sees a consumer. The newest stands first.
type Manager struct {
	store.Rest

	ID        string    `dynamodbav:"id"`
	Email     string    `dynamodbav:"email"`
	Sub       string    `dynamodbav:"sub"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// Invite is an address that may become a manager. The newest stands first.
type Invite struct {
	store.Rest

	ID        string    `dynamodbav:"id"`
	Email     string    `dynamodbav:"email"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// NewManager is what a manager is made from, or an invite when Sub is "".
type NewManager struct {
	Email, Sub string
	// Invite asks for an invite: the creation of a consumer takes both.
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
	used := make(map[string]bool)
	for i, m := range in {
		location := fmt.Sprintf("managers[%d]", i)
		if m.Invite {
			p.email(location, m.Email)
		} else {
			p.email(location+".email", m.Email)
			p.sub(location+".sub", m.Sub)
		}
		address := strings.ToLower(m.Email)
		if used[address] {
			p.Add(location, "repeats the address of another entry")
		}
		used[address] = true
	}
}

func (s *Service) addManagers(c *consumerRecord, in []NewManager, now time.Time) {
	for _, m := range in {
		if m.Invite {
			c.Invites = slices.Insert(c.Invites, 0, Invite{ID: s.parts.IDs.New("minv", 24), Email: m.Email, CreatedOn: now})
			continue
		}
		c.Managers = slices.Insert(c.Managers, 0, Manager{ID: s.parts.IDs.New("eusr", 24), Email: m.Email, Sub: m.Sub, CreatedOn: now})
	}
}

// ListManagers gives a part of a consumer's managers, the newest first, and how
// many there are in all.
func (s *Service) ListManagers(ctx context.Context, at ConsumerAt, page store.Page) ([]Manager, int, error) {
	v, err := s.load(ctx, target{ConsumerAt: at})
	if err != nil {
		return nil, 0, err
	}
	all := v.consumer.Managers
	from := min(page.Offset, len(all))
	return all[from:min(from+page.Limit, len(all))], len(all), nil
}

// ReadManager gives a manager, or an invite, by its id. It answers NotFound for one that
// is not there.
func (s *Service) ReadManager(ctx context.Context, at ConsumerAt, id string) (Person, error) {
	v, err := s.load(ctx, target{ConsumerAt: at})
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

// AddManager adds a manager. An invite of the same address is taken up by it; a
// manager of the same address is a Conflict.
func (s *Service) AddManager(ctx context.Context, at ConsumerAt, in NewManager) (Manager, error) {
	var wrong problems
	wrong.email("email", in.Email)
	wrong.sub("sub", in.Sub)
	if err := wrong.Err(); err != nil {
		return Manager{}, err
	}
	made := Manager{ID: s.parts.IDs.New("eusr", 24), Email: in.Email, Sub: in.Sub, CreatedOn: s.now()}
	err := s.changeManagers(ctx, at, made.ID, func(c *consumerRecord) error {
		if slices.ContainsFunc(c.Managers, func(m Manager) bool { return strings.EqualFold(m.Email, in.Email) }) {
			return errManagerInUse
		}
		c.Invites = slices.DeleteFunc(slices.Clone(c.Invites), func(i Invite) bool { return strings.EqualFold(i.Email, in.Email) })
		if len(c.Managers)+len(c.Invites) >= maxManagers {
			return errManagersFull
		}
		c.Managers = slices.Insert(slices.Clone(c.Managers), 0, made)
		return nil
	})
	return made, err
}

var (
	errManagerInUse = fault.New(fault.Conflict, "The consumer has a manager of this email address. Delete that one first, or take another address.")
	errManagersFull = fault.New(fault.Conflict, "The consumer has %d managers and invites, the most it can have. Delete one first.", maxManagers)
)

// DeleteManager deletes a manager, or an invite, by its id: nothing else
// withdraws an invite.
func (s *Service) DeleteManager(ctx context.Context, at ConsumerAt, id string) error {
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

func (s *Service) changeManagers(ctx context.Context, at ConsumerAt, id string, edit func(*consumerRecord) error) error {
	return s.table.Again(ctx, func(ctx context.Context) error {
		v, err := s.load(ctx, target{ConsumerAt: at})
		if err != nil {
			return err
		}
		c := v.consumer
		if err := edit(&c); err != nil {
			return err
		}
		writes := append([]store.Write{
			v.consumer.touch(v.g,
				setOrRemove("managers", c.Managers, len(c.Managers) == 0),
				setOrRemove("invites", c.Invites, len(c.Invites) == 0),
				store.Set(store.At("updatedOn"), s.now())),
			audit.Record(ctx, audit.Resource{Type: "manager", ID: id}, c.resource()),
		}, c.indexWrites(v.g, v.consumer)...)
		return s.table.Commit(ctx, writes...)
	})
}

// Package rotation replaces the root key of an installation, as a durable operation that goes on wherever it was killed.
//
// There are two root keys meanwhile, and both open and find what there is. In this order: every process learns of the new one; every
// process writes with it; what is kept under the old one is renewed, a page of the table at a time; what is not renewed
// has expired; all is looked at once more; the old one is retired. A stage begins when no process is left that has not heard of
// the one before.
//
// What it is not: it knows no record. Who seals something declares it (kept.go), and package durable hands the declarations
// over. Nor does it know where root keys are: package rootkey gives the writes that move from stage to stage.
//
// Read this file first, then renew.go. The reasons are in docs/decisions/0060-root-keys-follow-one-another.md; docs/aws.md
// and docs/one-server.md are for who rotates.
package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// Kind is the kind of the operation.
const Kind = "root-key-rotation"

const (
	// atWork is how long a process may be at something with the root keys that it had when it began: the longest step of
	// an operation, and then some.
	atWork = 10 * time.Minute
	// Holding is how long the old root key stays after all was renewed: longer than anything lives that is not renewed, such as the
	// answers that are kept of requests (24 hours).
	Holding = 25 * time.Hour
)

// The states.
const (
	announcing = "announce"
	switching  = "switch"
	renewing   = "renew"
	objects    = "objects"
	holding    = "hold"
	checking   = "check"
	retiring   = "retire"
	settling   = "settle"
)

// Keys are the root keys of an installation that can be rotated; *rootkey.Source are such.
type Keys interface {
	seal.Rings
	MaxAge() time.Duration
	Forget()
	Status(ctx context.Context) (rootkey.Status, error)
	Begin(ctx context.Context, operation, by string) ([]store.Write, error)
	Switch(ctx context.Context, operation string) ([]store.Write, error)
	Retire(ctx context.Context, operation string) ([]store.Write, error)
	Settle(ctx context.Context, operation string, of rootkey.Counts) ([]store.Write, error)
}

var _ Keys = (*rootkey.Source)(nil)

// Object renews one object, and tells whether it had to; not ok is one that no root key opens.
type Object func(ctx context.Context, key string) (renewed, ok bool, err error)

// Service rotates.
type Service struct {
	parts installation.Parts
	keys  Keys // nil where the root key cannot be rotated
	kept  []Kept
	// prefix is where the objects are that object renews.
	prefix string
	object Object
}

// Open makes the Service of an installation. kept are all records with something of the root key, and object renews the
// objects below prefix.
func Open(p installation.Parts, kept []Kept, prefix string, object Object) *Service {
	keys, _ := p.Key.(Keys)
	return &Service{parts: p, keys: keys, kept: kept, prefix: prefix, object: object}
}

// Kept are the declarations.
func (s *Service) Kept() []Kept { return s.kept }

var errNotHere = fault.New(fault.Conflict, "The root key of this installation is not kept where it could be rotated. Ask for it where the installation is operated.")

// Start begins a rotation, and its entry in the history: by is who asks for it, "" for nobody knows. Conflict is the fault where one goes on.
func (s *Service) Start(ctx context.Context, by string) (Status, error) {
	if s.keys == nil {
		return Status{}, errNotHere
	}
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		ctx = store.Undecided(ctx, "the write of the root keys holds for what was read")
		its, err := s.keys.Status(ctx)
		if err != nil {
			return err
		}
		id := Kind + "-" + strconv.Itoa(max(1, its.Number)+1)
		begin, err := s.keys.Begin(ctx, id, by)
		if err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx, append(begin, operation.Begin(operation.Start{ID: id, Kind: Kind, Subject: "the root key"}, s.parts.Now()))...)
	})
	if err != nil {
		return Status{}, err
	}
	s.keys.Forget()
	return s.Status(ctx)
}

// Status says which root keys there are and how far a rotation is.
type Status struct {
	// Number is that of the root key that writes, Other that of the second one, 0 for none.
	Number int `json:"rootKey"`
	Other  int `json:"otherRootKey,omitempty"`
	// Operation is that of the rotation that goes on, or was last, "" for none.
	Operation string     `json:"operation,omitempty"`
	BeganOn   *time.Time `json:"beganOn,omitempty"`
	EndedOn   *time.Time `json:"endedOn,omitempty"`
	// Stage is what is done, "" for nothing, Message how far, and Next when it goes on.
	Stage   string     `json:"stage,omitempty"`
	Message string     `json:"message,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	// History is what became of the root key so far, the newest first.
	History []rootkey.Event `json:"history,omitempty"`
}

// Status reads how far a rotation is.
func (s *Service) Status(ctx context.Context) (Status, error) {
	if s.keys == nil {
		return Status{}, errNotHere
	}
	its, err := s.keys.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	out := Status{Number: its.Number, Other: its.Other, Operation: its.Operation, EndedOn: its.EndedOn}
	if out.History, err = rootkey.History(ctx, s.parts.Table); err != nil {
		return Status{}, err
	}
	if its.Operation == "" {
		return out, nil
	}
	out.BeganOn = &its.BeganOn
	var r operation.Record
	switch err := s.parts.Table.Get(ctx, operation.Key(its.Operation), &r); {
	case errors.Is(err, store.ErrNotFound): // it has ended, long ago
		return out, nil
	case err != nil:
		return Status{}, fmt.Errorf("read a rotation: %w", err)
	}
	out.Message = r.Message
	if !r.Ended() {
		out.Stage, out.Next = r.State, &r.DueOn
	}
	return out, nil
}

// Definitions lists the operation, for the engine that runs it. It must happen: half a rotation is two root keys for ever.
func (s *Service) Definitions() []operation.Definition {
	state := func(does string, task operation.Task, next string) operation.State {
		return operation.State{Does: does, Task: task, Next: next, Must: true, Timeout: time.Minute}
	}
	return []operation.Definition{{
		Kind: Kind, First: announcing,
		States: map[string]operation.State{
			announcing: state("waits until every process knows the new root key", s.announce, switching),
			switching:  state("has every process write with it, and waits until it does", s.change, renewing),
			renewing:   state("renews what the table has of the old one", s.renew, objects),
			objects:    state("renews the objects", s.renewObjects, holding),
			holding:    state("waits until what is not renewed has expired", s.hold, checking),
			checking:   state("looks at all of the table again", s.renew, retiring),
			retiring:   state("takes the old root key away, and waits until no process has it", s.retire, settling),
			settling:   state("puts the key file in its place, where there is one", s.settle, operation.Succeed),
		},
	}}
}

// heard is after how long no process is left that goes by what was before.
func (s *Service) heard() time.Duration { return s.keys.MaxAge() + atWork }

// tell logs how far a rotation is, for the operator: of which root keys, and who has asked for it.
func (s *Service) tell(ctx context.Context, what string, step operation.Step, more ...any) error {
	all, err := rootkey.History(ctx, s.parts.Table)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e rootkey.Event) bool { return e.Kind == rootkey.Rotated })
	if i >= 0 {
		more = append(more, "from", all[i].From, "to", all[i].To, "rootKey", all[i].Number, "by", all[i].By)
	}
	s.parts.Log.InfoContext(ctx, "a rotation of the root key", append(more, "stage", what, "operation", step.ID)...)
	return nil
}

func (s *Service) announce(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotHere
	}
	if err := s.tell(ctx, "begins", step); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{After: s.heard(), Message: "Every process learns of the new root key."}, nil
}

func (s *Service) change(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotHere
	}
	writes, err := s.keys.Switch(ctx, step.ID)
	if err == nil {
		err = s.tell(ctx, "the new root key writes", step)
	}
	return operation.Result{Writes: writes, After: s.heard(), Message: "Every process begins to write with the new root key."}, err
}

func (s *Service) hold(_ context.Context, step operation.Step) (operation.Result, error) {
	var p progress
	if err := step.Data(&p); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{After: Holding, Message: p.String() + " What is left of the old one expires."}, nil
}

func (s *Service) retire(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotHere
	}
	writes, err := s.keys.Retire(ctx, step.ID)
	if err == nil {
		err = s.tell(ctx, "the old root key is taken away", step)
	}
	return operation.Result{Writes: writes, After: s.heard()}, err
}

func (s *Service) settle(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotHere
	}
	var p progress
	if err := step.Data(&p); err != nil {
		return operation.Result{}, err
	}
	of := rootkey.Counts{Renewed: p.Renewed, Objects: p.Objects, Unreadable: p.Unreadable + p.UnreadableObjects}
	writes, err := s.keys.Settle(ctx, step.ID, of)
	if err == nil {
		err = s.tell(ctx, "has ended", step, "renewed", of.Renewed, "objects", of.Objects, "unreadable", of.Unreadable)
	}
	return operation.Result{Writes: writes, Message: p.String()}, err
}

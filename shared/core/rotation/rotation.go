// Package rotation replaces the root key of an installation, as a durable operation that continues if it is killed at any point.
//
// During a rotation there are two root keys, and both open and find existing data. The stages are:
// every process learns of the new key; every process writes with the new key; data under the old key is
// renewed, first the table and then the objects; data that is not renewed expires; the table is checked once
// more; the old key is retired. A stage begins when every process has learned of the previous stage.
//
// The package does not know any records: the owners of sealed values declare them
// (records.go), and package durable passes the declarations on. Nor does it know
// where root keys are stored: package rootkey provides the writes for each stage.
//
// Read this file first, then renew.go. The reasons are in
// docs/decisions/0060-root-keys-follow-one-another.md; docs/aws.md and docs/one-server.md are for operators.
package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// Kind is the kind of the operation.
const Kind = "root-key-rotation"

const (
	// maxWorkDuration is how long a process may continue work with the root keys that it had
	// at the beginning of that work: longer than the longest step of an operation.
	maxWorkDuration = 10 * time.Minute
	// HoldDuration is how long the old root key is kept after all data was renewed. It is longer than
	// the lifetime of all data that is not renewed, such as stored responses to requests (24 hours).
	HoldDuration = 25 * time.Hour
)

// These are the states of the operation.
const (
	announcing = "announce"
	switching  = "switch"
	renewing   = "renew"
	objects    = "objects"
	holding    = "hold"
	checking   = "check"
	retiring   = "retire"
	finishing  = "settle"
)

// Keys accesses the root keys of an installation, and changes them
// in the stages of a rotation. *rootkey.Source implements it.
type Keys interface {
	seal.RingSource
	MaxAge() time.Duration
	Expire()
	Status(ctx context.Context) (rootkey.Status, error)
	Begin(ctx context.Context, operation, by string) ([]store.Write, error)
	Switch(ctx context.Context, operation string) ([]store.Write, error)
	Retire(ctx context.Context, operation string) ([]store.Write, error)
	Finish(ctx context.Context, operation string, counts rootkey.Counts) ([]store.Write, error)
}

var _ Keys = (*rootkey.Source)(nil)

// RenewObject renews one object, and reports whether it was renewed. ok is false if no root key opens the object.
type RenewObject func(ctx context.Context, key string) (renewed, ok bool, err error)

// Service rotates the root key.
type Service struct {
	parts   installation.Parts
	keys    Keys // nil if the root key cannot be rotated
	records []SealedRecords
	// prefix is the prefix of the objects that renewObject renews.
	prefix      string
	renewObject RenewObject
}

// Open returns the Service of an installation. records declares all records with values
// that depend on the root key, and renewObject renews the objects below prefix.
func Open(p installation.Parts, records []SealedRecords, prefix string, renewObject RenewObject) *Service {
	keys, _ := p.Key.(Keys)
	return &Service{parts: p, keys: keys, records: records, prefix: prefix, renewObject: renewObject}
}

// SealedRecords returns the declarations.
func (s *Service) SealedRecords() []SealedRecords { return s.records }

var errNotRotatable = fault.New(fault.Conflict, "The root key of this installation is not kept where it could be "+
	"rotated. Ask for it where the installation is operated.")

// Start begins a rotation, and adds it to the history. by names the operator who started it, "" if unknown. Fault:
// Conflict if a rotation or a change to another KMS key is in progress, or if this root key cannot be rotated.
func (s *Service) Start(ctx context.Context, by string) (Status, error) {
	if s.keys == nil {
		return Status{}, errNotRotatable
	}
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		ctx = store.WithoutReadSet(ctx, "the write of the root keys holds for what was read")
		status, err := s.keys.Status(ctx)
		if err != nil {
			return err
		}
		id := Kind + "-" + strconv.Itoa(max(1, status.Number)+1)
		writes, err := s.keys.Begin(ctx, id, by)
		if err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx,
			append(writes, operation.Create(operation.Start{ID: id, Kind: Kind, Subject: "the root key"}, s.parts.Now()))...)
	})
	if err != nil {
		return Status{}, err
	}
	s.keys.Expire()
	return s.Status(ctx)
}

// Status describes the root keys and the progress of a rotation.
type Status struct {
	// Number is the number of the current root key, which seals new data.
	// Other is the number of the second root key, 0 if there is none.
	Number int `json:"rootKey"`
	Other  int `json:"otherRootKey,omitempty"`
	// Operation is the id of the operation of the current or last rotation, "" if there was none.
	Operation string     `json:"operation,omitempty"`
	BeganOn   *time.Time `json:"beganOn,omitempty"`
	EndedOn   *time.Time `json:"endedOn,omitempty"`
	// Stage is the current stage, "" if no rotation is in progress.
	// Message describes the progress. Next is when the rotation continues.
	Stage   string     `json:"stage,omitempty"`
	Message string     `json:"message,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	// History is the history of the root key, newest first.
	History []rootkey.Event `json:"history,omitempty"`
}

// Status reads the status of the root keys and of a rotation.
func (s *Service) Status(ctx context.Context) (Status, error) {
	if s.keys == nil {
		return Status{}, errNotRotatable
	}
	status, err := s.keys.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	out := Status{Number: status.Number, Other: status.Other, Operation: status.Operation, EndedOn: status.EndedOn}
	if out.History, err = rootkey.History(ctx, s.parts.Table); err != nil {
		return Status{}, err
	}
	if status.Operation == "" {
		return out, nil
	}
	out.BeganOn = &status.BeganOn
	var r operation.Record
	switch err := s.parts.Table.Get(ctx, operation.Key(status.Operation), &r); {
	case errors.Is(err, store.ErrNotFound): // the operation ended long ago, and its record was deleted
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

// Definitions returns the definition of the operation, for the engine that runs it. Its states
// have MustSucceed, because an incomplete rotation would leave two root keys forever.
func (s *Service) Definitions() []operation.Definition {
	state := func(description string, task operation.Task, next string) operation.State {
		return operation.State{Description: description, Task: task, Next: next, MustSucceed: true, Timeout: time.Minute}
	}
	return []operation.Definition{{
		Kind: Kind, First: announcing,
		States: map[string]operation.State{
			announcing: state("waits until every process knows the new root key", s.announce, switching),
			switching:  state("has every process write with it, and waits until it does", s.switchKey, renewing),
			renewing:   state("renews what the table has of the old one", s.renew, objects),
			objects:    state("renews the objects", s.renewObjects, holding),
			holding:    state("waits until what is not renewed has expired", s.hold, checking),
			checking:   state("looks at all of the table again", s.renew, retiring),
			retiring:   state("takes the old root key away, and waits until no process has it", s.retire, finishing),
			finishing:  state("puts the key file in its place, where there is one", s.finish, operation.Succeed),
		},
	}}
}

// propagationTime returns the time after which no process uses the previous state any more.
func (s *Service) propagationTime() time.Duration { return s.keys.MaxAge() + maxWorkDuration }

// logStage logs a stage of a rotation for the operator, with the root keys and who started the rotation.
func (s *Service) logStage(ctx context.Context, stage string, step operation.Step, args ...any) error {
	all, err := rootkey.History(ctx, s.parts.Table)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e rootkey.Event) bool { return e.Kind == rootkey.KeyRotated })
	if i >= 0 {
		args = append(args, "from", all[i].From, "to", all[i].To, "rootKey", all[i].Number, "by", all[i].By)
	}
	s.parts.Log.InfoContext(ctx, "a rotation of the root key", append(args, "stage", stage, "operation", step.ID)...)
	return nil
}

func (s *Service) announce(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotRotatable
	}
	if err := s.logStage(ctx, "begins", step); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{Delay: s.propagationTime(), Message: "Every process learns of the new root key."}, nil
}

func (s *Service) switchKey(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotRotatable
	}
	writes, err := s.keys.Switch(ctx, step.ID)
	if err == nil {
		err = s.logStage(ctx, "the new root key writes", step)
	}
	return operation.Result{
		Writes: writes, Delay: s.propagationTime(),
		Message: "Every process begins to write with the new root key.",
	}, err
}

func (s *Service) hold(_ context.Context, step operation.Step) (operation.Result, error) {
	var p progress
	if err := step.Data(&p); err != nil {
		return operation.Result{}, err
	}
	return operation.Result{Delay: HoldDuration, Message: p.String() + " What is left of the old one expires."}, nil
}

func (s *Service) retire(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotRotatable
	}
	writes, err := s.keys.Retire(ctx, step.ID)
	if err == nil {
		err = s.logStage(ctx, "the old root key is taken away", step)
	}
	return operation.Result{Writes: writes, Delay: s.propagationTime()}, err
}

func (s *Service) finish(ctx context.Context, step operation.Step) (operation.Result, error) {
	if s.keys == nil {
		return operation.Result{}, errNotRotatable
	}
	var p progress
	if err := step.Data(&p); err != nil {
		return operation.Result{}, err
	}
	counts := rootkey.Counts{Renewed: p.Renewed, Objects: p.Objects, Unreadable: p.Unreadable + p.UnreadableObjects}
	writes, err := s.keys.Finish(ctx, step.ID, counts)
	if err == nil {
		err = s.logStage(ctx, "has ended", step, "renewed", counts.Renewed, "objects", counts.Objects, "unreadable",
			counts.Unreadable)
	}
	return operation.Result{Writes: writes, Message: p.String()}, err
}

// Package boundaries has done what is due for metering subscriptions when a
// period or a trial of theirs has ended, as durable operations (design,
// section 8): Begin begins one for each part of the subscriptions in which
// something is due, and its Definitions are how those go on.
//
// What happens at a boundary it does not know: metering.Service.Close gives the
// writes for one subscription, which hold for the subscription as it was read.
// So runs that are doubled, late, missed, torn or at the same time all come to
// the same end, and what is here only has to see to it that each one is asked
// for until nothing of it is due.
//
// What it costs grows with the subscriptions that are due, and not with all
// there are: they are found by the table's due index.
//
// Read this file first, then walk.go.
package boundaries

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// The kinds of operation.
const (
	// Walk closes all that is due in a shard.
	Walk = "metering-boundaries"
	// Stubborn closes one subscription that a Walk could not.
	Stubborn = "metering-boundary"
)

// Subscriptions closes what has passed for a subscription. The writes are one
// commit, which answers store.ErrStale if the subscription has changed since;
// none says that nothing is due for it any more, more that further ones follow.
type Subscriptions interface {
	Close(ctx context.Context, key store.Key, now time.Time) (writes []store.Write, more bool, err error)
}

var _ Subscriptions = (*metering.Service)(nil)

// Service begins and does the work. It is safe for concurrent use.
type Service struct {
	table         *store.Table
	subscriptions Subscriptions
	log           *slog.Logger
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return New(p.Table, metering.Open(p), p.Log) }

// New makes a Service of its parts.
func New(table *store.Table, subscriptions Subscriptions, log *slog.Logger) *Service {
	return &Service{table, subscriptions, log}
}

// walk is the input of a Walk.
type walk struct {
	Shard int `json:"shard"`
	// Until is the instant up to which it closes, so that it does the same
	// whenever it comes to it.
	Until time.Time `json:"until"`
}

// errBegun says that an operation was begun before.
var errBegun = errors.New("boundaries: the operation was begun before")

// Begin begins an operation for each shard in which something is due at now, and
// says how many it has begun. Called twice within a minute it begins them once; called
// at other times the later ones find nothing left. A shard that fails does not keep the
// others from theirs: the next call finds it as it is.
func (s *Service) Begin(ctx context.Context, now time.Time) (begun int, err error) {
	now = store.Instant(now)
	var errs []error
	for shard := range metering.DueShards {
		fresh, err := s.begin(ctx, shard, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("begin to close boundaries of shard %d: %w", shard, err))
		}
		if fresh {
			begun++
		}
	}
	return begun, errors.Join(errs...)
}

func (s *Service) begin(ctx context.Context, shard int, now time.Time) (fresh bool, err error) {
	q := metering.DueQuery(shard, now)
	q.Limit = 1
	due, err := s.table.Keys(ctx, q)
	if err != nil || len(due) == 0 {
		return false, err
	}
	return s.start(ctx, operation.Start{
		ID:   fmt.Sprintf("%s-%s-%d", Walk, now.Format("20060102T1504"), shard),
		Kind: Walk, Subject: "shard " + strconv.Itoa(shard), Input: walk{shard, now},
	}, now)
}

// start begins an operation unless it was begun before.
func (s *Service) start(ctx context.Context, o operation.Start, now time.Time) (fresh bool, err error) {
	err = s.table.Commit(ctx, operation.Begin(o, now).Else(errBegun))
	if errors.Is(err, errBegun) {
		return false, nil
	}
	return err == nil, err
}

package deployments

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// eventDelay is how much later than an archive its event may come.
const eventDelay = 5 * time.Minute

// claimMargin is longer than a claim may take, and than clocks differ: until so
// much after eventDelay a status says that the build may yet begin.
const claimMargin = time.Minute

// open reports whether an archive that arrived at one moment may still be
// claimed at another.
func (u upload) open(arrived, now time.Time) bool {
	return u.State == issued && !arrived.After(u.ExpiresOn) && now.Before(u.ExpiresOn.Add(eventDelay))
}

// Arrival is an object that has arrived where uploads do.
type Arrival struct {
	// StatusID is of the address that it was put to.
	StatusID string
	ETag     string
	// On is when S3 had all of it.
	On time.Time
}

// Claim takes an archive that has arrived as the beginning of its build, and
// answers the build's operation. The first archive of an address is claimed;
// what came later, too late or without an address answers ErrUnclaimed: nothing
// has changed, and the object is of no use. To hear of the same arrival again
// answers the operation again.
func (s *Service) Claim(ctx context.Context, a Arrival) (operationID string, err error) {
	err = s.parts.Table.Again(ctx, func(ctx context.Context) error {
		var u upload
		if err := s.parts.Table.Load(ctx, store.Want(uploadKey(a.StatusID), &u)); err != nil {
			return err
		}
		now := s.now()
		switch {
		case u.ID == "":
			return ErrUnclaimed
		case u.State == claimed && u.ETag == a.ETag && u.Source == "":
			return nil
		case !u.open(a.On, now):
			return ErrUnclaimed
		}
		var r Record
		if err := s.parts.Table.Load(ctx, store.Want(Key(u.Deployment), &r)); err != nil {
			return err
		}
		if !r.exists() {
			return ErrUnclaimed
		}
		u.State, u.ETag, u.Number = claimed, a.ETag, r.Latest+1
		return s.parts.Table.Commit(ctx,
			store.Update(uploadKey(u.ID),
				store.Set(store.At("state"), u.State),
				store.Set(store.At("etag"), u.ETag),
				store.Set(store.At("number"), u.Number),
			).If(store.Equal(store.At("state"), issued)).Else(store.ErrStale),
			r.number(now),
			beginBuild(r, u, now),
			openUntil(u.AccountID, u.ID, now.Add(longestBuild)),
		)
	})
	if err != nil {
		return "", err
	}
	return a.StatusID, nil
}

// ErrUnclaimed is what Claim answers for an object that begins no build.
var ErrUnclaimed = errors.New("deployments: the object belongs to no open upload")

package deployments

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// eventDelay is the maximum time from the expiry of an upload address to the event that reports the archive. Later
// events do not begin a build.
const eventDelay = 5 * time.Minute

// claimMargin is longer than a claim takes and longer than the difference between clocks. An upload without a build is
// shown as in progress until eventDelay and claimMargin have passed since the expiry of its address.
const claimMargin = time.Minute

// claimable reports whether an archive that was uploaded at arrived can be claimed at now.
func (u upload) claimable(arrived, now time.Time) bool {
	return u.State == uploadIssued && !arrived.After(u.ExpiresOn) && now.Before(u.ExpiresOn.Add(eventDelay))
}

// Arrival is an object that was uploaded to an upload address.
type Arrival struct {
	// StatusID is the statusId of the upload address.
	StatusID string
	ETag     string
	// UploadedOn is the time when the upload to S3 was complete.
	UploadedOn time.Time
}

// Claim begins the build of an uploaded archive and returns the id of the build's operation. It claims only the first
// archive of an upload address. For further archives, and for an archive that is too late, has no address, or belongs
// to a deleted deployment, Claim changes nothing and returns ErrUnclaimed: the object is not needed. For a repeated
// event of the same arrival, Claim returns the same operation.
func (s *Service) Claim(ctx context.Context, a Arrival) (operationID string, err error) {
	err = s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		var u upload
		if err := s.parts.Table.Load(ctx, store.Get(uploadKey(a.StatusID), &u)); err != nil {
			return err
		}
		now := s.now()
		switch {
		case u.ID == "":
			return ErrUnclaimed
		case u.State == uploadClaimed && u.ETag == a.ETag && u.Source == "":
			return nil
		case !u.claimable(a.UploadedOn, now):
			return ErrUnclaimed
		}
		var r Record
		if err := s.parts.Table.Load(ctx, store.Get(Key(u.Deployment), &r)); err != nil {
			return err
		}
		if !r.exists() {
			return ErrUnclaimed
		}
		u.State, u.ETag, u.Number = uploadClaimed, a.ETag, r.Latest+1
		return s.parts.Table.Commit(ctx,
			store.Update(uploadKey(u.ID),
				store.Set(store.At("state"), u.State),
				store.Set(store.At("etag"), u.ETag),
				store.Set(store.At("number"), u.Number),
			).If(store.Equal(store.At("state"), uploadIssued)).Else(store.ErrStale),
			r.assignNumber(now),
			beginBuild(r, u, now),
			keepOpenUntil(u.AccountID, u.ID, now.Add(maxBuildDuration)),
		)
	})
	if err != nil {
		return "", err
	}
	return a.StatusID, nil
}

// ErrUnclaimed is the error of Claim for an object that is not built.
var ErrUnclaimed = errors.New("deployments: the object belongs to no open upload")

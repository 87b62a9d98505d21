package fill

import (
	"context"
	"errors"
	"slices"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/store"
)

// unrecorded is a table into which changes write no audit records. A product that starts over a hundred thousand new ones chains them for more than
// a minute, and nobody asks here who has made what.
type unrecorded struct{ store.Backend }

// Transact implements store.Backend.
func (u unrecorded) Transact(ctx context.Context, token string, writes []store.Write) error {
	var kept []store.Write
	var places []int // of those in writes
	for i, w := range writes {
		if !audit.IsNew(w.Key) {
			kept, places = append(kept, w), append(places, i)
		}
	}
	err := u.Backend.Transact(ctx, token, kept)
	failed, is := errors.AsType[*store.ConditionError](err)
	if !is {
		return err
	}
	told := slices.Clone(failed.Failed)
	for n, i := range told {
		told[n] = places[i]
	}
	return &store.ConditionError{Failed: told}
}

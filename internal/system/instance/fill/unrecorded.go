package fill

import (
	"context"
	"errors"
	"slices"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// unrecorded is a table that drops the audit records of each change. A product that starts with more than a hundred
// thousand new audit records needs more than a minute to chain them, and the users of this package do not read the
// audit log.
type unrecorded struct{ store.Backend }

// Transact implements store.Backend.
func (u unrecorded) Transact(ctx context.Context, token string, writes []store.Write) error {
	var kept []store.Write
	var indexes []int // for each element of kept, its index in writes
	for i, w := range writes {
		if !audit.IsPending(w.Key) {
			kept, indexes = append(kept, w), append(indexes, i)
		}
	}
	err := u.Backend.Transact(ctx, token, kept)
	failed, ok := errors.AsType[*store.ConditionError](err)
	if !ok {
		return err
	}
	reasons := slices.Clone(failed.Failed)
	for n, i := range reasons {
		reasons[n] = indexes[i]
	}
	return &store.ConditionError{Failed: reasons}
}

package storetest

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Interrupted is a backend that calls BeforeCommit once, before its next transaction.
// So a test can change data between the reads of a change and its commit.
type Interrupted struct {
	store.Backend
	BeforeCommit func()
}

var _ store.Backend = (*Interrupted)(nil)

// Transact implements store.Backend.
func (i *Interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	if beforeCommit := i.BeforeCommit; beforeCommit != nil {
		i.BeforeCommit = nil
		beforeCommit()
	}
	return i.Backend.Transact(ctx, token, writes)
}

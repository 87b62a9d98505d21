package storetest

import (
	"context"

	"github.com/gatewright/gatewright/shared/store"
)

// Interrupted is a backend that has something happen before its next transaction, once: between
// what an operation reads and what it commits.
type Interrupted struct {
	store.Backend
	First func()
}

var _ store.Backend = (*Interrupted)(nil)

// Transact implements store.Backend.
func (i *Interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	if first := i.First; first != nil {
		i.First = nil
		first()
	}
	return i.Backend.Transact(ctx, token, writes)
}

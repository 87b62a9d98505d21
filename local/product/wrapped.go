package product

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// wrappedKey is the root key of an installation in AWS.
type wrappedKey struct {
	client rootkey.Mover
	keyID  string
	table  *store.Table
	// replaced tells that another one was there.
	replaced bool
}

var _ transfer.Keeper = (*wrappedKey)(nil)

func wrappedIn(sdk aws.Config, keyID string, table *store.Table) *wrappedKey {
	return &wrappedKey{client: kms.NewFromConfig(sdk), keyID: keyID, table: table}
}

// Root implements transfer.Keeper.
func (k *wrappedKey) Root(ctx context.Context) ([]byte, error) {
	return rootkey.Existing(ctx, k.client, k.keyID, k.table)
}

// Adopt implements transfer.Keeper.
func (k *wrappedKey) Adopt(ctx context.Context, root []byte) ([]store.Write, error) {
	w, replaces, err := rootkey.Adopt(ctx, k.client, k.keyID, k.table, root, time.Now)
	k.replaced = replaces
	return []store.Write{w}, err
}

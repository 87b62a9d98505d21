package product

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// wrappedKey is the root key of an installation in AWS.
type wrappedKey struct {
	client rootkey.Mover
	keyID  string
	region string
	table  *store.Table
	// replaced tells that another one was there.
	replaced bool
}

var _ transfer.Keeper = (*wrappedKey)(nil)

func wrappedIn(sdk aws.Config, keyID string, table *store.Table) *wrappedKey {
	return &wrappedKey{client: kms.NewFromConfig(sdk), keyID: keyID, region: sdk.Region, table: table}
}

// Root implements transfer.Keeper.
func (k *wrappedKey) Root(ctx context.Context) (rootkey.Moved, error) {
	root, err := rootkey.Existing(ctx, k.client, k.keyID, k.table)
	return root, k.explained(err)
}

// explained says what to do about a key that is not the table's: a table that was copied into another region,
// by DynamoDB's own means, has a root key that only the first region's key unwraps.
func (k *wrappedKey) explained(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "IncorrectKeyException", "InvalidCiphertextException":
			return fmt.Errorf("it is wrapped by another KMS key than %s in %s: name that one, in its own region", k.keyID, k.region)
		case "NotFoundException":
			return fmt.Errorf("KMS has no key %s in %s: a key is of one region, which AWS_REGION names", k.keyID, k.region)
		}
	}
	return err
}

// Adopt implements transfer.Keeper.
func (k *wrappedKey) Adopt(ctx context.Context, root rootkey.Moved) ([]store.Write, error) {
	w, replaces, err := rootkey.Adopt(ctx, k.client, k.keyID, k.table, root, time.Now)
	k.replaced = replaces
	return []store.Write{w}, k.explained(err)
}

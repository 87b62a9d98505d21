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
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// wrappedKey is the RootKeeper of an installation in AWS: KMS wraps the root key in the table.
type wrappedKey struct {
	client rootkey.EncryptClient
	keyID  string
	region string
	table  *store.Table
	// replaced reports whether the import replaced another root key.
	replaced bool
}

var _ transfer.RootKeeper = (*wrappedKey)(nil)

func newWrappedKey(sdk aws.Config, keyID string, table *store.Table) *wrappedKey {
	return &wrappedKey{client: kms.NewFromConfig(sdk), keyID: keyID, region: sdk.Region, table: table}
}

// Root implements transfer.RootKeeper.
func (k *wrappedKey) Root(ctx context.Context) (rootkey.ExportedKey, error) {
	root, err := rootkey.Export(ctx, k.client, k.keyID, k.table)
	return root, k.explain(err)
}

// explain replaces an error of KMS by one that says what to do. One cause is a table that DynamoDB
// has copied from another region: only the KMS key of that region can unwrap its root key.
func (k *wrappedKey) explain(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "IncorrectKeyException", "InvalidCiphertextException":
			return fmt.Errorf("it is wrapped by another KMS key than %s in %s: name that one, in its own region", k.keyID,
				k.region)
		case "NotFoundException":
			return fmt.Errorf("KMS has no key %s in %s: a key is of one region, which AWS_REGION names", k.keyID, k.region)
		}
	}
	return err
}

// Adopt implements transfer.RootKeeper.
func (k *wrappedKey) Adopt(ctx context.Context, root rootkey.ExportedKey) ([]store.Write, error) {
	w, replaces, err := rootkey.Import(ctx, k.client, k.keyID, k.table, root, time.Now)
	k.replaced = replaces
	return []store.Write{w}, k.explain(err)
}

// Package transfer moves an installation from a data directory to AWS, from AWS to a data directory, or between two
// places of the same kind. The format of the file does not depend on the engine of the table, the store of the objects,
// or the keeper of the root key.
//
// The file is a tar archive, compressed with zstd and sealed with age (https://age-encryption.org/v1)
// under a separate key, which the operator must transport separately. The archive contains, in this order:
//   - a manifest
//   - the root key, with its history if it was rotated
//   - the first account's key, if it is known
//   - the items of the table in DynamoDB's JSON, with some thousand items per file
//   - the objects, with their ETags
//   - a file that marks the end, with the numbers of items and objects
//
// The whole file is authenticated: if it was truncated, changed or sealed under another key, an import changes nothing.
//
// An export from the embedded engine contains a consistent copy of the table. An export from DynamoDB and S3 fails if
// the table or the bucket changes meanwhile (export.go). Sealed values stay sealed under the installation's root key.
// Only the root key itself is unwrapped, and wrapped again at the target (RootKeeper). Commit tokens and expired items
// are not exported.
//
// An export is not a backup, which can be restored only to a data directory
// (package backup). The package does not merge two installations.
//
// Read transfer.go first, then export.go, archive.go and import.go; directory.go and remote.go are for the two kinds of
// targets. key.go is for the key of an export. docs/one-server.md is for operators.
// docs/decisions/0057-an-installation-moves-with-its-root-key.md explains the decisions.
package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/stream"
)

const (
	product = "gatewright"
	// format is the version of the archive's format.
	format = 1
)

// The names of the files in the archive, in this order.
const (
	manifestName       = "manifest.json"
	rootName           = "root.key"
	rootKeyHistoryName = "root-key.json"
	accountKeyName     = "account-key"
	itemsPrefix        = "items/"
	objectsPrefix      = "objects/"
	endName            = "end.json"

	// etagRecord is the name of the extended header (PAX) with an object's ETag.
	etagRecord = "GATEWRIGHT.etag"
)

const (
	// itemsFileBytes is the size at which a file of items ends and another file begins.
	itemsFileBytes = 1 << 20
	// maxItemsFileBytes is the maximum size of a file of items. The last item of a file can have
	// the maximum size of an item, and each of its bytes is encoded as at most six bytes.
	maxItemsFileBytes = itemsFileBytes + 6*store.MaxItemBytes
	// maxSmallBytes is the maximum size of the other files that are read into memory.
	maxSmallBytes = 64 << 10
	// maxObjectBytes is the maximum size of an object that S3 accepts in one request.
	maxObjectBytes = 5 << 30
)

// manifest is the first file of the archive.
type manifest struct {
	Product   string    `json:"product"`
	Format    int       `json:"format"`
	CreatedOn time.Time `json:"madeOn"`
}

// Summary describes an export. It is also the last file of the archive, without CreatedOn.
type Summary struct {
	CreatedOn time.Time `json:"-"`
	Items     int       `json:"items"`
	Objects   int       `json:"objects"`
	Bytes     int64     `json:"bytes"` // of the objects
}

// Objects are the objects of a source; *blob.Bucket, *files.Bucket and *files.Snapshot implement it.
type Objects interface {
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
}

// Items calls visit with every item of a table, until visit returns
// an error. The table is in an *embedded.Backend or in DynamoDB.
type Items func(ctx context.Context, visit func(store.Item) error) error

// isExcluded reports whether an item is not exported. Commit tokens and the record of the root key are excluded because
// they are valid only in their table. Expired items are excluded too.
func isExcluded(item store.Item, now time.Time) bool {
	key := store.KeyOf(item)
	return store.IsToken(key) || rootkey.IsRecordKey(key) || store.Expired(item, now)
}

// encode returns an item as a line of JSON. It returns an error for strings that
// are not valid UTF-8, which JSON cannot represent and DynamoDB does not accept.
func encode(item store.Item) ([]byte, error) {
	if !isValidUTF8(&types.AttributeValueMemberM{Value: item}) {
		return nil, fmt.Errorf("the item %q has a text that is none in UTF-8", store.KeyOf(item).PK)
	}
	converted, err := stream.ToLambdaItem(item)
	if err == nil {
		var line []byte
		if line, err = json.Marshal(converted); err == nil {
			return append(line, '\n'), nil
		}
	}
	return nil, fmt.Errorf("encode an item: %w", err)
}

// isValidUTF8 reports whether all strings in a value are valid UTF-8.
func isValidUTF8(v store.Value) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return utf8.ValidString(v.Value)
	case *types.AttributeValueMemberSS:
		return !slices.ContainsFunc(v.Value, func(e string) bool { return !utf8.ValidString(e) })
	case *types.AttributeValueMemberL:
		return !slices.ContainsFunc(v.Value, func(e store.Value) bool { return !isValidUTF8(e) })
	case *types.AttributeValueMemberM:
		for name, e := range v.Value {
			if !utf8.ValidString(name) || !isValidUTF8(e) {
				return false
			}
		}
	}
	return true
}

// decode parses an item's line. It returns an error for items that a table does not accept, or that no export contains.
func decode(line []byte) (store.Item, error) {
	var raw map[string]events.DynamoDBAttributeValue
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, fmt.Errorf("an item cannot be read: %w", err)
	}
	item, err := stream.FromLambdaItem(raw)
	if err != nil {
		return nil, fmt.Errorf("an item cannot be read: %w", err)
	}
	switch key := store.KeyOf(item); {
	case key.PK == "" || key.SK == "":
		return nil, errors.New("an item has no key")
	case store.Size(item) > store.MaxItemBytes:
		return nil, fmt.Errorf("an item has %d bytes, more than a table takes", store.Size(item))
	case key.PK == installation.ImportPrefix.Key().PK || rootkey.IsRecordKey(key):
		return nil, errors.New("an item is of another installation's place")
	}
	return item, nil
}

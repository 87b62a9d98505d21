// Package transfer moves an installation to another kind of place: out of a data directory into
// AWS, out of AWS into a data directory, or between two of a kind. What is written does not
// depend on the engine that has the table, on what has the objects, or on what keeps the root key.
//
// The file is a tar archive, compressed by zstd and sealed by age (https://age-encryption.org/v1)
// under a key of its own, which the operator carries apart from it. In the archive come, in
// this order: a manifest; the root key, and what it has of those before it where it was rotated; the first account's key, where it is known; the items of
// the table as DynamoDB writes them in JSON, some thousand a file; the objects, with their ETags;
// and an end, with the numbers of both. All of it is authenticated: a file that was cut, changed
// or sealed under another key imports nothing.
//
// What it holds: the table as it was at one moment where an engine of ours has it, and as it was
// throughout where a DynamoDB has it, or there is no export (export.go). Values that are sealed
// stay so under the installation's root key; that key alone is opened, and wrapped again by what
// keeps it at the target. Records of processes, and those past their ttl, stay behind.
//
// What it is not: a backup, which is of one kind of place and goes back in one step (package
// backup); or a way to merge two installations.
//
// Read transfer.go first, then export.go, archive.go and import.go; directory.go and remote.go are
// the two kinds of targets, key.go has the key of a file. docs/one-server.md is for who uses it,
// docs/decisions/0057-an-installation-moves-with-its-root-key.md says why.
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

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/stream"
)

const (
	product = "gatewright"
	// format is the version of the archive's form.
	format = 1
)

// What lies in the archive, in this order.
const (
	manifestName   = "manifest.json"
	rootName       = "root.key"
	lineageName    = "root-key.json"
	accountKeyName = "account-key"
	itemsPrefix    = "items/"
	objectsPrefix  = "objects/"
	endName        = "end.json"

	// etagRecord is the extended header (PAX) that has an object's ETag.
	etagRecord = "GATEWRIGHT.etag"
)

const (
	// itemsBytes is when a file of items is full.
	itemsBytes = 1 << 20
	// maxItemsBytes bounds one in memory: its last item may be as large as DynamoDB takes it, and
	// base64 and JSON's escapes make six bytes of one at the most.
	maxItemsBytes = itemsBytes + 6*store.MaxItemBytes
	// maxSmallBytes bounds the files that are read whole.
	maxSmallBytes = 64 << 10
	// maxObjectBytes is what S3 takes in one request.
	maxObjectBytes = 5 << 30
)

// manifest is the first file.
type manifest struct {
	Product string    `json:"product"`
	Format  int       `json:"format"`
	MadeOn  time.Time `json:"madeOn"`
}

// Summary says what was written or read. It is the archive's last file, without the time.
type Summary struct {
	MadeOn  time.Time `json:"-"`
	Items   int       `json:"items"`
	Objects int       `json:"objects"`
	Bytes   int64     `json:"bytes"` // of the objects
}

// Objects are what a source has beside its table; *blob.Bucket, *files.Bucket and *files.Copied
// are such.
type Objects interface {
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
}

// Items visits all items of a table until an error: of *embedded.Backend, or of a DynamoDB.
type Items func(ctx context.Context, visit func(store.Item) error) error

// space has one record while an import into a table goes on: which one, and how far it has come.
// Read by an import and an export when they begin, and written with each commit of an import.
const space store.Space = "import"

// Reached asks a table for one item, which need not be there: an error is the table's.
func Reached(ctx context.Context, table *store.Table) error {
	err := table.Get(ctx, space.Key(), &progress{})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Ended refuses a table into which an import was begun that has not ended: nobody is to be let in before all of it is there. It is one read.
func Ended(ctx context.Context, table *store.Table) error {
	switch err := table.Get(ctx, space.Key(), &progress{}); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look for an import that has not ended: %w", err)
	}
	return errors.New("an import into it was begun and has not ended: run the same import-data again first")
}

// stays reports whether an item is of its place and not of the installation: what the root key
// is wrapped by, what a process notes for itself, what has expired.
func stays(item store.Item, now time.Time) bool {
	key := store.KeyOf(item)
	return store.IsToken(key) || rootkey.Is(key) || store.Expired(item, now)
}

// encode makes an item's line. Texts that are none in UTF-8, which JSON has no form for, are
// refused: no DynamoDB takes them either.
func encode(item store.Item) ([]byte, error) {
	if !isText(&types.AttributeValueMemberM{Value: item}) {
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

// isText reports whether all texts of a value are in UTF-8.
func isText(v store.Value) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return utf8.ValidString(v.Value)
	case *types.AttributeValueMemberSS:
		return !slices.ContainsFunc(v.Value, func(e string) bool { return !utf8.ValidString(e) })
	case *types.AttributeValueMemberL:
		return !slices.ContainsFunc(v.Value, func(e store.Value) bool { return !isText(e) })
	case *types.AttributeValueMemberM:
		for name, e := range v.Value {
			if !utf8.ValidString(name) || !isText(e) {
				return false
			}
		}
	}
	return true
}

// decode reads an item's line, and refuses what no table takes.
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
	case key.PK == space.Key().PK || rootkey.Is(key):
		return nil, errors.New("an item is of another installation's place")
	}
	return item, nil
}

package takeover

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/stream"
)

// eachItem visits all items of the old table. SQLite works on a copy: to open a
// database that was not closed is to write into its folder.
func eachItem(ctx context.Context, old string, work *staging.Folder, visit func(store.Key, store.Item) error) error {
	from := filepath.Join(old, filepath.FromSlash(oldTable))
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil // objects alone
	}
	path := work.Path("table.db")
	for _, part := range []string{"", "-wal"} { // the log of a process that was killed
		if err := copyFile(ctx, from+part, path+part); err != nil && (part == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(path)}).EscapedPath())
	if err != nil {
		return fmt.Errorf("open %s: %w", oldTable, err)
	}
	defer func() { _ = db.Close() }()
	if err := checkTable(ctx, db); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, `SELECT item_json FROM gatewright`)
	if err != nil {
		return fmt.Errorf("read %s: %w", oldTable, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var raw sql.RawBytes
		if err := rows.Scan(&raw); err != nil {
			return fmt.Errorf("read %s: %w", oldTable, err)
		}
		key, item, err := decode(raw)
		if err != nil {
			return err
		}
		if err := visit(key, item); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read %s: %w", oldTable, err)
	}
	return nil
}

// checkTable refuses a database that is damaged or has another form.
func checkTable(ctx context.Context, db *sql.DB) error {
	var sound string
	err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&sound)
	if err == nil && sound != "ok" {
		err = errors.New(strings.Join(strings.Fields(sound), " "))
	}
	if err != nil {
		return fmt.Errorf("its table %s cannot be read, or is damaged: %w: if it goes on, restore a copy of it", oldTable, err)
	}
	var columns int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_info('gatewright') WHERE name IN ('pk', 'sk', 'item_json')`).Scan(&columns)
	if err != nil {
		return fmt.Errorf("look into %s: %w", oldTable, err)
	}
	if columns != 3 {
		return fmt.Errorf("its table %s has another form than the last earlier version's: start that version over it once, stop it, and import again", oldTable)
	}
	return nil
}

// decode reads an item as DynamoDB writes it in JSON.
func decode(raw []byte) (store.Key, store.Item, error) {
	var record events.DynamoDBEventRecord
	err := json.Unmarshal(raw, &record.Change.NewImage)
	if err != nil {
		return store.Key{}, nil, fmt.Errorf("an item of %s cannot be read: %w: restore a copy of it", oldTable, err)
	}
	record.Change.Keys = map[string]events.DynamoDBAttributeValue{}
	for name := range (store.Key{}).Item() {
		if v, ok := record.Change.NewImage[name]; ok {
			record.Change.Keys[name] = v
		}
	}
	change, err := stream.FromLambda(record)
	if err != nil {
		return store.Key{}, nil, fmt.Errorf("an item of %s cannot be read: %w: restore a copy of it", oldTable, err)
	}
	return change.Key, change.New, nil
}

func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from) //nolint:gosec // G304: the operator names the directory
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode) //nolint:gosec // G304: in a folder of ours
	if err != nil {
		return err
	}
	_, err = io.Copy(out, staging.Reader(ctx, in))
	return errors.Join(err, out.Close())
}

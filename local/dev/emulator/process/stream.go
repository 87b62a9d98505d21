package process

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// streamRetention is the time for which DynamoDB keeps the records of a stream.
const streamRetention = 24 * time.Hour

// indexStream adds indexes to dynoxide's database and deletes expired stream records, while dynoxide runs. For each
// write to a table with a stream, dynoxide queries the highest sequence number without an index, and it never deletes a
// record. So each write gets 0.09 ms slower per thousand earlier records. With the indexes, writes are equally fast
// after 40,000 records (docs/decisions/0022-what-the-embedded-dynamodb-lacks.md).
//
// indexStream does not change the database of a dynoxide version with another schema.
func indexStream(ctx context.Context, path string, now time.Time) error {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return fmt.Errorf("open dynoxide's database: %w", err)
	}
	defer func() { _ = db.Close() }()
	var columns int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_info('_stream_records')
		WHERE name IN ('table_name', 'shard_id', 'sequence_number', 'created_at')`).Scan(&columns)
	if err != nil {
		return fmt.Errorf("look into dynoxide's database: %w", err)
	}
	if columns != 4 {
		return nil
	}
	for _, statement := range []string{
		`CREATE INDEX IF NOT EXISTS gatewright_stream ON _stream_records (table_name, CAST(sequence_number AS INTEGER))`,
		`CREATE INDEX IF NOT EXISTS gatewright_shard ON _stream_records ` +
			`(table_name, shard_id, CAST(sequence_number AS INTEGER))`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("index dynoxide's stream: %w", err)
		}
	}
	// Do not delete the newest record: dynoxide derives the next sequence number from it.
	_, err = db.ExecContext(ctx, `DELETE FROM _stream_records WHERE created_at < ?
		AND id < (SELECT max(id) FROM _stream_records)`, now.Add(-streamRetention).Unix())
	if err != nil {
		return fmt.Errorf("shorten dynoxide's stream: %w", err)
	}
	return nil
}

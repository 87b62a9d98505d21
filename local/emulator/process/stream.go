package process

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// streamRetention is how long DynamoDB keeps the records of a stream.
const streamRetention = 24 * time.Hour

// indexStream adds what dynoxide's database lacks for its streams, while dynoxide
// runs: for each write to a table with a stream it asks for the highest sequence
// number there is, without an index for that, and it never forgets a record. A
// thousand records made each write 0.09 ms slower, for ever; with the indexes
// a write costs the same after 40,000 records
// (docs/decisions/0022-what-the-embedded-dynamodb-lacks.md).
//
// A database of another form, of another version, is left as it is.
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
		`CREATE INDEX IF NOT EXISTS gatewright_shard ON _stream_records (table_name, shard_id, CAST(sequence_number AS INTEGER))`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("index dynoxide's stream: %w", err)
		}
	}
	// The newest record stays: the next sequence number is counted from it.
	_, err = db.ExecContext(ctx, `DELETE FROM _stream_records WHERE created_at < ?
		AND id < (SELECT max(id) FROM _stream_records)`, now.Add(-streamRetention).Unix())
	if err != nil {
		return fmt.Errorf("shorten dynoxide's stream: %w", err)
	}
	return nil
}

package process

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// createStreamRecords creates the table of stream records like version 1.2.1 of dynoxide.
const createStreamRecords = `CREATE TABLE _stream_records (id INTEGER PRIMARY KEY AUTOINCREMENT,
	table_name TEXT NOT NULL, event_name TEXT NOT NULL, keys_json TEXT NOT NULL, new_image TEXT, old_image TEXT,
	sequence_number TEXT NOT NULL,
	shard_id TEXT NOT NULL, created_at INTEGER NOT NULL, user_identity TEXT)`

func openDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestStreamIsIndexedAndTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a table.db")
	db := openDB(t, path)
	now := time.Unix(1_800_000_000, 0)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(createStreamRecords)
	for i, age := range []time.Duration{72 * time.Hour, 25 * time.Hour, 23 * time.Hour, 48 * time.Hour} {
		exec(`INSERT INTO _stream_records (table_name, event_name, keys_json, sequence_number, shard_id, created_at)
			VALUES ('t', 'INSERT', '{}', ?, 's', ?)`, i+1, now.Add(-age).Unix())
	}
	for range 2 { // every start calls indexStream again
		if err := indexStream(t.Context(), path, now); err != nil {
			t.Fatalf("indexStream() = %v, want no error", err)
		}
	}
	var remaining string
	if err := db.QueryRowContext(t.Context(), `SELECT group_concat(id, ' ') FROM _stream_records`).Scan(
		&remaining); err != nil || remaining != "3 4" {
		t.Errorf("remaining records = %q, %v, want 3 and the newest, 4", remaining, err)
	}
	// dynoxide sends these queries. SQLite may choose either index for them.
	for _, query := range []string{
		`SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = 't'`,
		`SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = 't' AND shard_id = 's'`,
	} {
		var id, parent, unused int
		var plan string
		if err := db.QueryRowContext(t.Context(), `EXPLAIN QUERY PLAN `+query).Scan(&id, &parent, &unused,
			&plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, "INDEX gatewright_s") {
			t.Errorf("plan of %s = %s, want the index gatewright_stream or gatewright_shard", query, plan)
		}
	}
}

func TestDatabaseWithOtherSchemaIsUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.db")
	db := openDB(t, path)
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE _stream_records (id INTEGER)`); err != nil {
		t.Fatal(err)
	}
	if err := indexStream(t.Context(), path, time.Now()); err != nil {
		t.Errorf("indexStream(another schema) = %v, want no error", err)
	}
	var indexes int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_master WHERE type = 'index'`).Scan(
		&indexes); err != nil || indexes != 0 {
		t.Errorf("indexes after indexStream(another schema) = %d, %v, want 0", indexes, err)
	}
}

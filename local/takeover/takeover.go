// Package takeover brings the data of an earlier version into a data directory of
// this one: versions that kept the table in the file of an embedded DynamoDB
// (dynoxide 1.2) and the objects in the folder of an embedded S3 (versitygw).
//
// It reads their files, the table through SQLite, and starts neither: what an
// import needs is Go alone, and nothing writes where the old data lies. An object's
// ETag is computed, not read from the attributes that a copy of the folder loses.
//
// Each item is told by the new table's feed as one that was made. Whom the feed
// calls acts on what stands in the table, so that nothing of the past happens
// twice, and operations that were under way are found there at once; the place
// where the old feed was read is of no use.
//
// What it is not: a way between installations that run. Read takeover.go first,
// then import.go and table.go. docs/backup.md is for who uses it.
package takeover

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/gatewright/gatewright/local/datadir"
)

// Where earlier versions kept their data, below a data directory.
const (
	oldTable   = "dynamodb/table.db"
	oldObjects = "s3"
	oldBucket  = "s3/gatewright"
	// unfinished is where versitygw keeps uploads, in the bucket's folder.
	unfinished = ".sgwtmp"
)

// Detect reports whether a data directory holds data of an earlier version. It also
// reports true if a part of them is lost: the rest is data.
func Detect(dir string) bool {
	for _, name := range []string{path.Dir(oldTable), oldObjects} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Refuse answers nil, or for a data directory that holds data of an earlier
// version the sentence that says how it is taken over (those ran on Linux alone).
// A start asks before it makes anything there.
func Refuse(dir string) error {
	if !Detect(dir) {
		return nil
	}
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(filepath.Join(dir, datadir.Engine)); err == nil {
		return fmt.Errorf("%s holds data of this version (%s/) and of an earlier one (%s/ or %s/): keep the folders of the version that you want, and move the others to another place", dir, datadir.Engine, path.Dir(oldTable), oldObjects)
	}
	return fmt.Errorf("%[1]s holds data of an earlier version: take it over with `mv %[1]s %[1]s-old && go run ./local import %[1]s-old`", dir)
}

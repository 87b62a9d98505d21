// Package takeover brings the data of an earlier version into a data directory:
// versions that kept the table in the file of an embedded DynamoDB (dynoxide) and
// the objects in the folder of an embedded S3 (versitygw).
//
// Start with this file.
package takeover

import (
	"fmt"
	"os"
	"path/filepath"
)

// Where earlier versions kept their data, below a data directory.
const (
	oldTable   = "dynamodb/table.db"
	oldObjects = "s3"
)

// Detect reports whether a data directory holds data of an earlier version.
func Detect(dir string) bool {
	for _, name := range []string{oldTable, oldObjects} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
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
	return fmt.Errorf("%[1]s holds data of an earlier version: take it over with `mv %[1]s %[1]s-old && go run ./local import %[1]s-old`", dir)
}

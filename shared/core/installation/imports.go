package installation

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/shared/core/store"
)

// ImportPrefix is the key prefix of one record, which exists in the table while an archive is
// imported. The importer writes the record with each commit and deletes it with the last commit.
// An export checks at its beginning that the record does not exist (package local/transfer).
const ImportPrefix store.KeyPrefix = "import"

// IsImporting reports whether an import into a table has begun and has not ended. It reads the table once.
func IsImporting(ctx context.Context, table *store.Table) (bool, error) {
	err := table.Get(ctx, ImportPrefix.Key(), &struct{}{})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// CheckNoUnfinishedImport returns an error if an import into a table has begun and has not ended:
// until then a part of the data is missing, and the installation must not serve clients.
func CheckNoUnfinishedImport(ctx context.Context, table *store.Table) error {
	switch unfinished, err := IsImporting(ctx, table); {
	case err != nil:
		return fmt.Errorf("look for an import that has not ended: %w", err)
	case unfinished:
		return errors.New("an import into it was begun and has not ended: run the same import-data again first")
	}
	return nil
}

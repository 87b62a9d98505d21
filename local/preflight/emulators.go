package preflight

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/config"
)

// RefuseEmulators returns an error of one line if dir holds the data of an emulator of
// DynamoDB or S3, and nil otherwise, also if dir does not exist. A run with functions as
// processes keeps its data so, and all runs did before the first release. A start calls it
// before it makes a file: it would make an empty installation beside those data.
func RefuseEmulators(dir string) error {
	for _, name := range []string{datadir.EmulatedTable, datadir.EmulatedObjects} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			continue // a directory that cannot be read is an error where it is opened
		}
		return fmt.Errorf("%[1]s holds %[2]s/, the data of an emulator: a run with %[3]s or a version before the first release has written them, and this run does not read them: name another directory in %[4]s, or move %[2]s/ away",
			filepath.Clean(dir), name, config.VarFunctions, config.VarDataDir)
	}
	return nil
}

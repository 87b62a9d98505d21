package preflight

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/core/config"
)

// RefuseEmulators returns an error of one line if dir contains the data of an emulator of DynamoDB or S3. It returns
// nil if dir does not exist. If functions run as separate processes (config.VarFunctions), the server stores its data
// in emulators. All versions before the first release did so, too. The server calls RefuseEmulators at its start,
// before it creates files. Otherwise it would create an empty installation next to the emulator's data.
func RefuseEmulators(dir string) error {
	for _, name := range []string{datadir.EmulatedTable, datadir.EmulatedObjects} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			continue // other errors are reported when the directory is opened
		}
		return fmt.Errorf("%[1]s holds %[2]s/, the data of an emulator: a run with %[3]s or a version before the first "+
			"release has written them, and this run does not read them: name another directory in %[4]s, or move %[2]s/ away",
			filepath.Clean(dir), name, config.VarFunctions, config.VarDataDir)
	}
	return nil
}

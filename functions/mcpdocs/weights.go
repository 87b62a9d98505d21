package mcpdocs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

// VectorsFile is the name of the file that `make docs-vectors` makes: the vectors of a model of Bedrock. It lies beside a function's
// bootstrap, or in the folder docsearch beside the local run.
const VectorsFile = "bedrock.vectors"

// The folders of the files, seen from the folder of the binary.
var (
	vectorsFolders = []string{".", "docsearch"}
	// weightsFolders are those of a function's asset and of an image, of an archive, and of a checkout, whose binaries are in dist.
	weightsFolders = []string{".", "../share/gatewright", "../shared/docsearch/minilm"}
)

// weights returns a function that maps the configured file, or the one that lies near the binary if configured is "".
func weights(configured string) func() ([]byte, error) {
	if configured != "" {
		return func() ([]byte, error) { return disk.Map(configured) }
	}
	return nearBinary(minilm.FileName, weightsFolders)
}

// nearBinary returns a function that maps the first file of this name in these folders, seen from the folder of the binary.
func nearBinary(name string, folders []string) func() ([]byte, error) {
	return func() ([]byte, error) {
		binary, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return first(filepath.Dir(binary), name, folders)
	}
}

// first maps the first file of this name in folders below a folder. It returns fs.ErrNotExist if no folder has one.
func first(below, name string, folders []string) (file []byte, err error) {
	for _, folder := range folders {
		file, err = disk.Map(filepath.Join(below, filepath.FromSlash(folder), name))
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, err
}

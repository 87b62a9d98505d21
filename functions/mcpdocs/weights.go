package mcpdocs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// VectorsFile is the name of the file with the vectors of a Bedrock model, which `make docs-vectors` creates. The file
// is next to a function's bootstrap, or in the folder docsearch next to the binary of the local process.
const VectorsFile = "bedrock.vectors"

// The folders that can contain the file of vectors and the file of weights, relative to the folder of the binary.
var (
	vectorsFolders = []string{".", "docsearch"}
	// weightsFolders has the folders, in this order, for a function or an image, for an unpacked release archive, and for
	// a checkout of the repository, whose binaries are in dist.
	weightsFolders = []string{".", "../share/gatewright", "../shared/management/docsearch/minilm"}
)

// weightsLoader returns a function that maps the file of weights into memory. configured is the path of the file. If
// configured is "", the function searches for the file near the binary.
func weightsLoader(configured string) func() ([]byte, error) {
	if configured != "" {
		return func() ([]byte, error) { return disk.Map(configured) }
	}
	return fileNearBinary(minilm.FileName, weightsFolders)
}

// fileNearBinary returns a function that maps the first file with this name in folders into memory. The folders are
// relative to the folder of the binary.
func fileNearBinary(name string, folders []string) func() ([]byte, error) {
	return func() ([]byte, error) {
		binary, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return firstFile(filepath.Dir(binary), name, folders)
	}
}

// firstFile maps the first file with this name in folders, relative to base. It returns fs.ErrNotExist if no folder has
// one.
func firstFile(base, name string, folders []string) (file []byte, err error) {
	for _, folder := range folders {
		file, err = disk.Map(filepath.Join(base, filepath.FromSlash(folder), name))
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, err
}

package mcpdocs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/disk"
)

// weightsFile is what `make docs-weights` calls the weights: beside the function's bootstrap in its asset, and in the folder
// docsearch beside the local run.
const weightsFile = "minilm-l6-v2.weights"

// VectorsFile is what `make docs-vectors` calls the vectors of a model of Bedrock, in the same places.
const VectorsFile = "bedrock.vectors"

// weights gives what maps the file that is configured, or else the one beside the binary. fs.ErrNotExist is for none.
func weights(configured string) func() ([]byte, error) {
	if configured != "" {
		return func() ([]byte, error) { return disk.Map(configured) }
	}
	return beside(weightsFile)
}

// beside gives what maps a file beside the binary. fs.ErrNotExist is for none.
func beside(name string) func() ([]byte, error) {
	return func() ([]byte, error) {
		binary, err := os.Executable()
		if err != nil {
			return nil, err
		}
		folder := filepath.Dir(binary)
		file, err := disk.Map(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			file, err = disk.Map(filepath.Join(folder, "docsearch", name))
		}
		return file, err
	}
}

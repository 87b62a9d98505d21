package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// maxKeyBytes is the maximum size of a key file. The files of CreateKey and age-keygen are smaller.
const maxKeyBytes = 4096

// CreateKey creates the key file of an export, readable only by its owner, unless it exists. The
// file has the format of `age-keygen`, so that `age --decrypt --identity` can open an export too.
func CreateKey(path string) (created bool, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return false, fmt.Errorf("make the key of an export: %w", err)
	}
	//nolint:gosec // G304: the operator names the file
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("the key file %s cannot be made: %w: name one in a folder that is there and can be written",
			path, disk.Cause(err))
	}
	_, err = fmt.Fprintf(file, "# The key of an export of Gatewright. Who has it and the export has the "+
		"installation.\n%s\n", identity)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		// Remove the incomplete file: the next call would use it as the key.
		return false, errors.Join(fmt.Errorf("the key file %s cannot be written: %w", path, disk.Cause(err)), os.Remove(path))
	}
	return true, nil
}

// readKey reads a key file of CreateKey, or of `age-keygen`. Its errors do not contain parts of the file.
func readKey(path string) (*age.X25519Identity, error) {
	file, err := os.Open(path) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return nil, fmt.Errorf("the key file %s cannot be read: %w", path, disk.Cause(err))
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the key file %s cannot be read: %w", path, disk.Cause(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the key file %s is no regular file", path)
	case disk.Exposed(info.Mode()):
		return nil, fmt.Errorf("the key file %s has mode %04o and others may read it: chmod 600 it, or export again under "+
			"another if somebody may have read it", path, info.Mode().Perm())
	}
	text, err := disk.ReadAtMost(file, maxKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("the key file %s cannot be read: %w", path, disk.Cause(err))
	}
	identities, err := age.ParseIdentities(bytes.NewReader(text))
	if err == nil && len(identities) == 1 {
		if identity, ok := identities[0].(*age.X25519Identity); ok {
			return identity, nil
		}
	}
	// The error does not contain the parser's error, which can contain a part of the key.
	return nil, fmt.Errorf("the key file %s does not hold exactly one key of the kind that an export makes "+
		"(AGE-SECRET-KEY-1…)", path)
}

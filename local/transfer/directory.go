package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// newDataDir is the name of the data directory in the staging folder, until it is complete and moved to its place.
const newDataDir = "data"

// ImportDirectory creates a data directory from an export, sealed under the key in keyFile. dir must be
// empty or must not exist. Even if the process is killed, dir then contains either all data or nothing.
func ImportDirectory(ctx context.Context, name, keyFile, dir string) (summary Summary, err error) {
	if dir, err = staging.Resolve(dir); err != nil {
		return summary, err
	}
	if err := staging.CheckEmpty(dir); err != nil {
		return summary, err
	}
	a, err := openArchive(ctx, name, keyFile)
	if err != nil {
		return summary, err
	}
	defer func() { _ = a.close() }()
	workDir, err := staging.Open(dir + ".importing")
	if err != nil {
		return summary, fmt.Errorf("import %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, workDir.Close()) }()
	if err := a.fillDirectory(ctx, workDir.Path(newDataDir)); err != nil {
		return summary, fmt.Errorf("import %s: %w; nothing was imported", name, err)
	}
	return a.summary, workDir.MoveTo(newDataDir, dir)
}

// fillDirectory creates the data directory dir and imports the archive into it.
func (a *archive) fillDirectory(ctx context.Context, dir string) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, rootkey.Name), a.root.Key); err != nil {
		return err
	}
	if a.accountKey != nil {
		if err := writeNew(filepath.Join(dir, datadir.AccountKey), a.accountKey); err != nil {
			return err
		}
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: filepath.Join(dir, datadir.Engine)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	// Open the root key before there are items. rootkey.Open stores the key's hash in the engine, and later refuses the
	// key of another installation.
	if _, err := rootkey.Open(ctx, filepath.Join(dir, rootkey.Name), engine); err != nil {
		return err
	}
	objects, err := files.Open(files.Options{Dir: filepath.Join(dir, datadir.Objects), Notes: engine, Now: time.Now})
	if err != nil {
		return err
	}
	table := store.New(engine, store.Options{Random: rand.Reader, Now: time.Now})
	rootKeyWrites, err := sharedrootkey.ImportFile(ctx, filepath.Join(dir, rootkey.Name), a.root, time.Now)
	if err == nil {
		err = table.Commit(ctx, rootKeyWrites...)
	}
	if err != nil {
		return err
	}
	f := &importer{archive: a, table: table, put: func(ctx context.Context, o blob.Object, body io.Reader) error {
		return objects.Import(ctx, o, body)
	}}
	return f.fill(ctx)
}

func writeNew(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode) //nolint:gosec // G304: in a folder of ours
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

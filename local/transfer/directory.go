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
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
)

// newData is the data directory to be, in the folder where it is made.
const newData = "data"

// ImportDirectory makes a data directory of an export, sealed under the key in keyFile. dir must
// be absent or empty, and has everything or nothing whenever the process ends.
func ImportDirectory(ctx context.Context, name, keyFile, dir string) (sum Summary, err error) {
	if dir, err = staging.Resolve(dir); err != nil {
		return sum, err
	}
	if err := staging.Vacant(dir); err != nil {
		return sum, err
	}
	a, err := openArchive(ctx, name, keyFile)
	if err != nil {
		return sum, err
	}
	defer func() { _ = a.close() }()
	work, err := staging.Open(dir + ".importing")
	if err != nil {
		return sum, fmt.Errorf("import %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	if err := a.fillFolder(ctx, work.Path(newData)); err != nil {
		return sum, fmt.Errorf("import %s: %w; nothing was imported", name, err)
	}
	return a.sum, work.Place(newData, dir)
}

// fillFolder makes the data directory in a folder.
func (a *archive) fillFolder(ctx context.Context, dir string) (err error) {
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
	// Before there are items: the engine learns whose they are.
	if _, err := rootkey.Open(ctx, filepath.Join(dir, rootkey.Name), engine); err != nil {
		return err
	}
	objects, err := files.Open(files.Options{Dir: filepath.Join(dir, datadir.Objects), Notes: engine, Now: time.Now})
	if err != nil {
		return err
	}
	table := store.New(engine, store.Options{Random: rand.Reader, Now: time.Now})
	lineage, err := sharedrootkey.AdoptInFile(ctx, filepath.Join(dir, rootkey.Name), a.root, time.Now)
	if err == nil {
		err = table.Commit(ctx, lineage...)
	}
	if err != nil {
		return err
	}
	f := &filling{archive: a, table: table, put: func(ctx context.Context, o blob.Object, body io.Reader) error {
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

// Package preflight checks a data directory before a start writes to it. If a part of the directory is missing, the
// start fails with a one-line error and changes no file. Otherwise it would create, for example, an empty store next to
// the old root key, and serve it as a new installation. Only a missing account key is not an error: the start creates
// another one.
//
// A first start creates the parts in this order: store, root key, objects, account, account key. Each part is on disk
// before the next part is written. So an interrupted first start never leaves a root key, an object or an account key
// without the store. A directory that has one of these but no store has lost a part. This rule needs no marker file, so
// it also applies to directories of earlier releases.
//
// The package does not read all data: it opens the store read-only, and compares names and sizes. Package integrity
// reads all data.
//
// Read preflight.go first. emulators.go rejects the data of emulators.
// docs/local-run.md lists what happens when a file is missing.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// Options are the parts of the data that are in the directory. The other parts are in DynamoDB or S3.
type Options struct {
	// Table reports whether the table is in the directory's store.
	Table bool
	// Objects reports whether the objects are files in the directory.
	Objects bool
}

// Check returns nil if the directory is complete, or if an interrupted first start has left it. Otherwise it returns an
// error of one line that says what is missing and what to do. The caller must hold the directory's lock. Check changes
// no file.
func Check(ctx context.Context, dir *datadir.Dir, o Options) error {
	traces, err := laterParts(dir, o)
	if err != nil {
		return err
	}
	switch _, err := os.Lstat(dir.Path(datadir.Engine)); {
	case errors.Is(err, fs.ErrNotExist) && len(traces) > 0:
		return fmt.Errorf("%s is missing, and %s beside it show that it held data: put it back (is its disk mounted?), or "+
			"restore the last backup into another data directory; if a DynamoDB has the data, name it in %s",
			dir.Path(datadir.Engine), strings.Join(traces, ", "), config.VarDynamoDBEndpoint)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the store: %w", disk.Cause(err))
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: dir.Path(datadir.Engine), ReadOnly: true})
	if err != nil && len(traces) == 0 {
		return nil // a killed first start can leave an incomplete store; a damaged store is reported when it is opened
	}
	if err != nil {
		return err
	}
	return errors.Join(checkComplete(ctx, dir, o, engine, traces), engine.Close())
}

// laterParts returns the names of existing files and folders that a start
// writes only after the store. They prove that the store has existed.
func laterParts(dir *datadir.Dir, o Options) ([]string, error) {
	var out []string
	if o.Table { // if the table is elsewhere, these files can be older than the store
		for _, name := range []string{rootkey.Name, rootkey.NextName, datadir.AccountKey} {
			switch _, err := os.Lstat(dir.Path(name)); {
			case err == nil:
				out = append(out, name)
			case !errors.Is(err, fs.ErrNotExist):
				return nil, fmt.Errorf("look at the data directory: %w", disk.Cause(err))
			}
		}
	}
	if o.Objects {
		// An empty folder proves nothing: it can be the mount point of another disk.
		matches, err := fs.Glob(os.DirFS(dir.Path(datadir.Objects)), "??/*")
		if err != nil {
			return nil, fmt.Errorf("look at the objects: %w", err)
		}
		if len(matches) > 0 {
			out = append(out, datadir.Objects)
		}
	}
	return out, nil
}

// checkComplete checks that the root key belongs to the store, that the files of all objects in the store exist with
// the right size, and that the store is not empty if it must have items.
func checkComplete(ctx context.Context, dir *datadir.Dir, o Options, engine *embedded.Backend, traces []string) error {
	empty, err := engine.Empty() //nolint:contextcheck // Empty only reads memory and local files
	if err != nil {
		return err
	}
	if !empty {
		err = rootkey.CheckExisting(ctx, dir.Path(rootkey.Name), engine)
	}
	if err == nil {
		// If the table is elsewhere, the store never has items: it only has notes about objects. Then objects prove a loss
		// only if the store does not even have these notes.
		err = checkNotEmptied(ctx, dir, engine, writtenAfterData(traces, o.Table || empty))
	}
	if err == nil && o.Objects {
		err = checkObjects(ctx, dir, engine)
	}
	return err
}

// errFound ends EachItem at the first item.
var errFound = errors.New("there is one")

// writtenAfterData returns the names in traces of the parts that are written only after the first item: the account key
// and, if includeObjects is true, the objects. It omits the root key, because a killed first start can leave a root key
// without items.
func writtenAfterData(traces []string, includeObjects bool) (out []string) {
	for _, name := range traces {
		if name == datadir.AccountKey || name == datadir.Objects && includeObjects {
			out = append(out, name)
		}
	}
	return out
}

// checkNotEmptied returns an error if the store has no items although files
// exist that are written after the first item. names are these files.
func checkNotEmptied(ctx context.Context, dir *datadir.Dir, engine *embedded.Backend, names []string) error {
	if len(names) == 0 {
		return nil
	}
	switch err := engine.EachItem(ctx, func(store.Item) error { return errFound }); {
	case errors.Is(err, errFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the store in %s is empty, but it held data, according to %s next to it: put its files "+
		"back (is its disk mounted?), or restore the last backup into another data directory; if a DynamoDB has the data, "+
		"name it in %s; to start a new installation here, move %s away",
		dir.Path(datadir.Engine), strings.Join(names, ", "), config.VarDynamoDBEndpoint, strings.Join(names, ", "))
}

// checkObjects returns an error if the content of an object is missing or has another size.
func checkObjects(ctx context.Context, dir *datadir.Dir, engine *embedded.Backend) error {
	folder := dir.Path(datadir.Objects)
	return files.Contents(engine, func(digest string, bytes int64) error {
		path := filepath.Join(folder, filepath.FromSlash(files.ContentPath(digest)))
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing, but an object in the store refers to it: put %s back (is its disk mounted?), or "+
				"restore the last backup into another data directory", missingPath(folder, path), datadir.Objects)
		case err != nil:
			return fmt.Errorf("look at an object: %w", disk.Cause(err))
		case info.Size() != bytes:
			return fmt.Errorf("%s has %d bytes instead of %d: put a copy of the file back, or restore the last backup into "+
				"another data directory", path, info.Size(), bytes)
		}
		return ctx.Err()
	})
}

// missingPath returns folder if the whole folder is missing, and path otherwise.
func missingPath(folder, path string) string {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return folder
	}
	return path
}

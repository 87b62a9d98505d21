// Package preflight checks a data directory before a start writes to it. A start that
// finds less than the directory held before is refused with one line, and changes no file:
// an empty store under an old root key would serve as a new installation.
//
// The order of a first start distinguishes a new directory from one that has lost a part:
// store, root key, objects, account, account key. Each of them is on disk before the next one is
// written. So a kill or a power cut leaves a beginning of that list, and never a root
// key, an object or an account key without the store. Directories need no marker file, not
// even those of earlier releases.
//
// What it is not: a check of every byte. Package integrity reads the tables and the
// objects; this package opens the store read-only, and compares names and sizes.
//
// Read preflight.go; emulators.go refuses the data of emulators. docs/local-run.md lists what happens when a file is missing.
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
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// Options say which data the directory holds. Other data are in DynamoDB or S3.
type Options struct {
	// Table reports whether the store has the table.
	Table bool
	// Objects reports whether the objects are files of the directory.
	Objects bool
}

// Check returns nil if the directory is complete, or if an interrupted first start has left
// it. Otherwise it returns an error of one line that says what is missing and what to do. The
// caller holds the directory's lock. Check changes no file.
func Check(ctx context.Context, dir *datadir.Dir, o Options) error {
	before, err := evidence(dir, o)
	if err != nil {
		return err
	}
	switch _, err := os.Lstat(dir.Path(datadir.Engine)); {
	case errors.Is(err, fs.ErrNotExist) && len(before) > 0:
		return fmt.Errorf("%s is missing, and %s beside it show that it held data: put it back (is its disk mounted?), or restore the last backup into another data directory; if a DynamoDB has the data, name it in %s",
			dir.Path(datadir.Engine), strings.Join(before, ", "), config.VarDynamoDBEndpoint)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the store: %w", disk.Cause(err))
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: dir.Path(datadir.Engine), ReadOnly: true})
	if err != nil && len(before) == 0 {
		return nil // a first start may have been killed while it made the store; the store itself refuses damage
	}
	if err != nil {
		return err
	}
	return errors.Join(complete(ctx, dir, o, engine, before), engine.Close())
}

// evidence returns the names of the files and folders that a start writes only after the store.
func evidence(dir *datadir.Dir, o Options) ([]string, error) {
	var out []string
	if o.Table { // with a table elsewhere they may be older than the store
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
		// An empty folder may be the mount point of another disk.
		found, err := fs.Glob(os.DirFS(dir.Path(datadir.Objects)), "??/*")
		if err != nil {
			return nil, fmt.Errorf("look at the objects: %w", err)
		}
		if len(found) > 0 {
			out = append(out, datadir.Objects)
		}
	}
	return out, nil
}

// complete compares the root key and the objects in the store with their files beside it.
func complete(ctx context.Context, dir *datadir.Dir, o Options, engine *embedded.Backend, before []string) error {
	empty, err := engine.Empty() //nolint:contextcheck // notes are read from memory and tables of this process
	if err != nil {
		return err
	}
	if !empty {
		err = rootkey.CheckOver(ctx, dir.Path(rootkey.Name), engine)
	}
	if err == nil {
		err = notEmptied(ctx, dir, engine, later(before, o.Table || empty))
	}
	if err == nil && o.Objects {
		err = objects(ctx, dir, engine)
	}
	return err
}

// errSome ends a visit at the first item.
var errSome = errors.New("there is one")

// later returns the names of files that are written after the first item. objects says whether
// objects are among them. A killed first start may leave a root key alone.
func later(before []string, objects bool) (out []string) {
	for _, name := range before {
		if name == datadir.AccountKey || name == datadir.Objects && objects {
			out = append(out, name)
		}
	}
	return out
}

// notEmptied refuses a store without items if files are there that are written after the first item.
func notEmptied(ctx context.Context, dir *datadir.Dir, engine *embedded.Backend, later []string) error {
	if len(later) == 0 {
		return nil
	}
	switch err := engine.EachItem(ctx, func(store.Item) error { return errSome }); {
	case errors.Is(err, errSome):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the store in %s is empty, and %s beside it is of an installation that held data: put its files back (is its disk mounted?), or restore the last backup into another data directory; if a DynamoDB has the data, name it in %s; to start a new installation here, move %s away",
		dir.Path(datadir.Engine), strings.Join(later, ", "), config.VarDynamoDBEndpoint, strings.Join(later, ", "))
}

// objects refuses a directory that lacks the content of an object, or has it with another size.
func objects(ctx context.Context, dir *datadir.Dir, engine *embedded.Backend) error {
	folder := dir.Path(datadir.Objects)
	return files.Contents(engine, func(digest string, bytes int64) error {
		path := filepath.Join(folder, filepath.FromSlash(files.ContentPath(digest)))
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing, but an object in the store refers to it: put %s back (is its disk mounted?), or restore the last backup into another data directory", absent(folder, path), datadir.Objects)
		case err != nil:
			return fmt.Errorf("look at an object: %w", disk.Cause(err))
		case info.Size() != bytes:
			return fmt.Errorf("%s has %d bytes instead of %d: put a copy of the file back, or restore the last backup into another data directory", path, info.Size(), bytes)
		}
		return ctx.Err()
	})
}

// absent returns the folder of the objects if all of it is missing, and path otherwise.
func absent(folder, path string) string {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return folder
	}
	return path
}

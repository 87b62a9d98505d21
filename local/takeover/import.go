package takeover

import (
	"context"
	"crypto/md5" //nolint:gosec // G501: an ETag of S3
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// Summary says what was taken over.
type Summary struct {
	Items, Objects int
	Bytes          int64 // of the objects
}

const (
	// newData is the data directory to be, in the folder where it is made.
	newData = "data"

	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// Import makes the data directory dir, which must be absent or empty, of the one
// of an earlier version, which is only read and must not be in use. dir has
// everything or nothing whenever the process ends.
func Import(ctx context.Context, old, dir string) (sum Summary, err error) {
	if old, dir, err = apart(old, dir); err != nil {
		return sum, err
	}
	if !Detect(old) {
		return sum, fmt.Errorf("%s holds no data of an earlier version: name the directory in which dynamodb/ and s3/ are", old)
	}
	release, err := lockOld(old)
	if err != nil {
		return sum, err
	}
	defer release()
	if err := staging.Vacant(dir); err != nil {
		return sum, err
	}
	work, err := staging.Open(dir + ".importing")
	if err != nil {
		return sum, fmt.Errorf("import %s: %w", old, err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	if sum, err = fill(ctx, old, work); err != nil {
		return sum, fmt.Errorf("import %s: %w", old, err)
	}
	return sum, work.Place(newData, dir)
}

// apart gives absolute paths, and refuses to write into what is only read.
func apart(old, dir string) (absOld, absDir string, err error) {
	if absOld, err = filepath.Abs(old); err == nil {
		absOld, err = filepath.EvalSymlinks(absOld)
	}
	if err != nil {
		return "", "", fmt.Errorf("the directory %s cannot be read: %w", old, err)
	}
	if absDir, err = staging.Resolve(dir); err != nil {
		return "", "", err
	}
	below, err := filepath.Rel(absOld, absDir)
	if err == nil && below == "." {
		if err := Refuse(dir); err != nil {
			return "", "", err
		}
		return absOld, absDir, nil // not old data, which is told
	}
	if err == nil && filepath.IsLocal(below) {
		return "", "", fmt.Errorf("the data directory %s lies in %s, where nothing is written: name another one", dir, old)
	}
	return absOld, absDir, nil
}

// errInUse is what lockOld answers while an earlier version runs over its data.
func errInUse(old string) error {
	return fmt.Errorf("%s is in use by a running product: stop it first", old)
}

// fill makes the data directory in a folder.
func fill(ctx context.Context, old string, work *staging.Folder) (sum Summary, err error) {
	if err := os.Mkdir(work.Path(newData), dirMode); err != nil {
		return sum, err
	}
	if err := copyKeys(ctx, old, work.Path(newData)); err != nil {
		return sum, err
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: work.Path(newData, datadir.Engine)})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if _, err := rootkey.Open(ctx, work.Path(newData, rootkey.Name), engine); err != nil {
		return sum, err
	}
	if sum.Items, err = importTable(ctx, old, work, engine); err != nil {
		return sum, err
	}
	objects, err := files.Open(files.Options{Dir: work.Path(newData, datadir.Objects), Notes: engine, Now: time.Now})
	if err != nil {
		return sum, err
	}
	return sum, sum.importObjects(ctx, filepath.Join(old, filepath.FromSlash(oldBucket)), objects)
}

// copyKeys copies the root key, without which the rest is worth nothing, and the
// account's, of which the next start would make another one.
func copyKeys(ctx context.Context, old, to string) error {
	key, err := seal.ExistingFile(filepath.Join(old, rootkey.Name)).Root(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("its root.key is missing, and without it nothing sealed can be read: put a copy of that file back")
	}
	if err == nil {
		err = write(filepath.Join(to, rootkey.Name), key)
	}
	if err != nil {
		return err
	}
	account, err := os.ReadFile(filepath.Join(old, datadir.AccountKey)) //nolint:gosec // G304: the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = write(filepath.Join(to, datadir.AccountKey), account)
	}
	return err
}

func write(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode) //nolint:gosec // G304: in a folder of ours
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// importTable puts all items into the engine, in commits as large as they may be.
func importTable(ctx context.Context, old string, work *staging.Folder, engine store.Backend) (items int, err error) {
	var batch []store.Write
	bytes := 0
	commit := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := engine.Transact(ctx, "import-"+strconv.Itoa(items), batch)
		batch, bytes = batch[:0], 0
		return err
	}
	err = eachItem(ctx, old, work, func(key store.Key, item store.Item) error {
		size := store.Size(item)
		if len(batch) == store.MaxWrites || bytes+size > store.MaxTransactionBytes {
			if err := commit(); err != nil {
				return err
			}
		}
		batch, bytes, items = append(batch, store.Write{Kind: store.PutKind, Key: key, Item: item}), bytes+size, items+1
		return nil
	})
	if err == nil {
		err = commit()
	}
	return items, err
}

// importObjects puts all objects into the bucket. The path of a file below the
// folder is its object's key.
func (s *Summary) importObjects(ctx context.Context, folder string, to *files.Bucket) error {
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever stored
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(key string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && key == unfinished:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return ctx.Err()
		}
		o, err := importObject(ctx, root, key, to)
		if err != nil {
			return fmt.Errorf("the object %s: %w", key, err)
		}
		s.Objects++
		s.Bytes += o.Size
		return nil
	})
}

func importObject(ctx context.Context, root *os.Root, key string, to *files.Bucket) (o blob.Object, err error) {
	file, err := root.Open(key)
	if err != nil {
		return o, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return o, err
	}
	digest := md5.New() //nolint:gosec // G401: an ETag of S3
	if _, err := io.Copy(digest, file); err != nil {
		return o, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return o, err
	}
	o = blob.Object{Key: key, Size: info.Size(), ETag: hex.EncodeToString(digest.Sum(nil)), Modified: info.ModTime()}
	return o, to.Import(ctx, o, file)
}

package product

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
)

func exportDataCommand(a administration) *cobra.Command {
	var keyFile string
	var from awsNames
	c := &cobra.Command{
		Use:   "export-data FILE --key-file KEY",
		Short: "Write all of the installation into a sealed file that moves it: to AWS, out of it, or to another machine",
		Long: `Write all of the installation into a file from which import-data makes it elsewhere: table, objects, root key. It is sealed under the key in KEY, which is made
if it is not there; carry the two apart. What is changed after it stays behind, so let nobody write any more.

From the data directory it is as it was at one moment, and the product may run. With ` + config.VarDynamoDBEndpoint + ` and ` + config.VarS3Endpoint + `, or --table, --bucket and --kms-key for
AWS, all that writes has to be stopped: the export is refused when something was changed meanwhile.`,
		Args: oneFileArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return errNoKeyFile
			}
			return a.withRemote(cmd, from, func(r *remote) error {
				return export(cmd, exportFiles{args[0], keyFile}, exportFiles{args[0], keyFile}, "",
					func(w io.Writer) (transfer.Summary, error) { return r.export(cmd.Context(), keyFile, w) })
			}, a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
				if d.engine == nil || d.objects == nil {
					return fmt.Errorf("the data are only in part in files of ours: set both of %s and %s, or none",
						config.VarDynamoDBEndpoint, config.VarS3Endpoint)
				}
				paths := exportFiles{d.resolvePath(args[0]), d.resolvePath(keyFile)}
				return export(cmd, exportFiles{args[0], keyFile}, paths, d.dir.Path(), func(w io.Writer) (transfer.Summary, error) {
					return d.export(cmd.Context(), paths.key, w)
				})
			}), args)
		},
	}
	c.Flags().StringVar(&keyFile, "key-file", "", "the file of the export's key, which is made if it is not there")
	from.addFlags(c, "from")
	return c
}

var errNoKeyFile = errors.New("name the file of the export's key: --key-file FILE")

// exportFiles has the names of an export and of the file with its key.
type exportFiles struct{ file, key string }

// export calls write to write an export to paths.file, and creates the key paths.key if it does not exist. It prints a
// summary with the names in display, as the user typed them. dir is the data directory, or "" if the data is elsewhere.
func export(
	cmd *cobra.Command, display, paths exportFiles, dir string, write func(io.Writer) (transfer.Summary, error),
) error {
	created, err := transfer.CreateKey(paths.key)
	if err != nil {
		return err
	}
	var summary transfer.Summary
	err = backup.Create(paths.file, dir, func(w io.Writer) (err error) {
		summary, err = write(w)
		return err
	})
	if err != nil {
		return err
	}
	key := "the key in " + display.key
	if created {
		key += ", which was made"
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %d items and %d objects (%s) as they were on %s, sealed under %s. "+
		"Keep the two apart: together they are the installation.\n",
		display.file, summary.Items, summary.Objects, formatSize(summary.Bytes), summary.CreatedOn.UTC().Format(time.RFC3339),
		key)
	return nil
}

// export writes an export of a consistent copy of the data directory. The product may run meanwhile.
func (d *database) export(ctx context.Context, keyFile string, w io.Writer) (summary transfer.Summary, err error) {
	path := d.dir.Path(rootkey.Name)
	if err := rootkey.Check(ctx, path, d.engine); err != nil {
		return summary, err
	}
	stagingFolder, err := staging.Open(d.dir.Path("export"))
	if err != nil {
		return summary, fmt.Errorf("make an export: %w", err)
	}
	defer func() { err = errors.Join(err, stagingFolder.Close()) }()
	// As in a backup, call Retain before Checkpoint: then every content that
	// the checkpoint names exists, and is not deleted during the export.
	release := d.objects.Retain()
	defer func() { err = errors.Join(err, release()) }()
	if err := d.engine.Checkpoint(ctx, stagingFolder.Path(datadir.Engine)); err != nil {
		return summary, err
	}
	checkpoint, err := embedded.Open(ctx, embedded.Options{Dir: stagingFolder.Path(datadir.Engine), ReadOnly: true})
	if err != nil {
		return summary, err
	}
	defer func() { err = errors.Join(err, checkpoint.Close()) }()
	if err := checkpoint.Verify(ctx); err != nil {
		return summary, err
	}
	root, err := sharedrootkey.ExportFile(ctx, path,
		store.New(checkpoint, store.Options{Random: rand.Reader, Now: time.Now}))
	if err != nil {
		return summary, err
	}
	accountKey, err := accountKeyOf(d.dir)
	if err != nil {
		return summary, err
	}
	return transfer.Write(ctx, transfer.Source{
		Items: checkpoint.EachItem, Objects: files.OpenSnapshot(d.dir.Path(datadir.Objects), checkpoint),
		Root: root, AccountKey: accountKey, Now: time.Now,
	}, keyFile, w)
}

// export writes an export of the remote.
func (r *remote) export(ctx context.Context, keyFile string, w io.Writer) (summary transfer.Summary, err error) {
	root, err := r.keeper.Root(ctx)
	if err != nil {
		return summary, fmt.Errorf("read the root key of %s: %w", r.name, err)
	}
	var accountKey []byte
	if r.dir != nil {
		if accountKey, err = accountKeyOf(r.dir); err != nil {
			return summary, err
		}
	}
	return transfer.Write(ctx, transfer.Source{
		Items: r.items, Objects: r.bucket, Root: root, AccountKey: accountKey, Changing: true, Now: time.Now,
	}, keyFile, w)
}

func accountKeyOf(dir *datadir.Dir) ([]byte, error) {
	content, err := dir.Read(datadir.AccountKey)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // optional: the next start creates a key
	}
	return content, err
}

func importDataCommand(a administration) *cobra.Command {
	var keyFile string
	var into awsNames
	c := &cobra.Command{
		Use:   "import-data FILE --key-file KEY",
		Short: "Make an installation of a file of export-data, in a place that holds none",
		Long: `Make an installation of a file of export-data: the data directory, which must not be there, or be empty; with ` + config.VarDynamoDBEndpoint + ` and ` + config.VarS3Endpoint + `, or --table,
--bucket and --kms-key for AWS, a table and a bucket that hold nothing. The file is read to its end first, and one that is not whole, or sealed under another key, changes nothing.
Its root key is kept as the place keeps it: in a file, or wrapped by KMS. After a failure or a kill run the same command again.`,
		Args: oneFileArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return errNoKeyFile
			}
			return a.withRemote(cmd, into, func(r *remote) error {
				return r.importFile(cmd, args[0], keyFile)
			}, func(cmd *cobra.Command, args []string) error {
				return a.program.newDirectory(cmd, func(ctx context.Context, dir string) (string, error) {
					summary, err := transfer.ImportDirectory(ctx, args[0], keyFile, dir)
					if errors.Is(err, transfer.ErrInvalid) && fileHasPrefix(args[0], zstdMagic) {
						err = fmt.Errorf("%w. It looks like a backup: restore makes an installation of it", err)
					}
					return describeImport(summary), err
				})
			}, args)
		},
	}
	c.Flags().StringVar(&keyFile, "key-file", "", "the file of the export's key")
	into.addFlags(c, "into")
	return c
}

func describeImport(summary transfer.Summary) string {
	return fmt.Sprintf("%d items and %d objects (%s) as they were on %s", summary.Items, summary.Objects,
		formatSize(summary.Bytes), summary.CreatedOn.UTC().Format(time.RFC3339))
}

// importFile imports an export into the remote.
func (r *remote) importFile(cmd *cobra.Command, file, keyFile string) error {
	phase, err := importPhases()
	if err != nil {
		return err
	}
	target := transfer.Remote{
		Name: r.name, Table: r.table, Items: r.items, Bucket: r.bucket, Keeper: r.keeper,
		PhaseOf: phase, Now: time.Now,
	}
	if r.dir != nil {
		target.StoreAccountKey = func(key []byte) error { return r.dir.Write(datadir.AccountKey, key) }
	}
	summary, err := transfer.Import(cmd.Context(), file, keyFile, target)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %s.\n", r.name, describeImport(summary))
	if k, ok := r.keeper.(*wrappedKey); ok && k.replaced {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "It had a root key that nothing was sealed under. Functions that hold it in "+
			"memory know no key for up to an hour: leave them stopped (make stop-aws) for as long.")
	}
	return nil
}

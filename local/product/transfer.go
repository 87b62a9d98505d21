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
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
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
		Args: namesFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return errNoKeyFile
			}
			return a.atPlace(cmd, from, func(p *place) error {
				return export(cmd, typed{args[0], keyFile}, typed{args[0], keyFile}, "", func(to io.Writer) (transfer.Summary, error) { return p.export(cmd.Context(), keyFile, to) })
			}, a.command(func(cmd *cobra.Command, args []string, d *database) error {
				if d.engine == nil || d.objects == nil {
					return fmt.Errorf("the data are only in part in files of ours: set both of %s and %s, or none", config.VarDynamoDBEndpoint, config.VarS3Endpoint)
				}
				at := typed{d.file(args[0]), d.file(keyFile)}
				return export(cmd, typed{args[0], keyFile}, at, d.dir.Path(), func(to io.Writer) (transfer.Summary, error) { return d.export(cmd.Context(), at.key, to) })
			}), args)
		},
	}
	c.Flags().StringVar(&keyFile, "key-file", "", "the file of the export's key, which is made if it is not there")
	from.flags(c, "from")
	return c
}

var errNoKeyFile = errors.New("name the file of the export's key: --key-file FILE")

// typed are the names of an export's file and of its key's.
type typed struct{ file, key string }

// export makes the file of an export at a place, with its key where there is none, and says what is in
// it by the names that were typed. dir is the data directory, "" for data that are elsewhere.
func export(cmd *cobra.Command, as, at typed, dir string, write func(io.Writer) (transfer.Summary, error)) error {
	made, err := transfer.MakeKey(at.key)
	if err != nil {
		return err
	}
	var sum transfer.Summary
	err = backup.Create(at.file, dir, func(to io.Writer) (err error) {
		sum, err = write(to)
		return err
	})
	if err != nil {
		return err
	}
	key := "the key in " + as.key
	if made {
		key += ", which was made"
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %d items and %d objects (%s) as they were on %s, sealed under %s. Keep the two apart: together they are the installation.\n",
		as.file, sum.Items, sum.Objects, size(sum.Bytes), sum.MadeOn.UTC().Format(time.RFC3339), key)
	return nil
}

// export writes what a data directory has, as it is at one moment, while the product runs or not.
func (d *database) export(ctx context.Context, keyFile string, to io.Writer) (sum transfer.Summary, err error) {
	path := d.dir.Path(rootkey.Name)
	if err := rootkey.Check(ctx, path, d.engine); err != nil {
		return sum, err
	}
	work, err := staging.Open(d.dir.Path("export"))
	if err != nil {
		return sum, fmt.Errorf("make an export: %w", err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	// In this order, as a backup does: every content that the copy names is there, and stays.
	release := d.objects.Retain()
	defer func() { err = errors.Join(err, release()) }()
	if err := d.engine.Checkpoint(ctx, work.Path(datadir.Engine)); err != nil {
		return sum, err
	}
	copied, err := embedded.Open(ctx, embedded.Options{Dir: work.Path(datadir.Engine), ReadOnly: true})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	if err := copied.Verify(ctx); err != nil {
		return sum, err
	}
	root, err := sharedrootkey.ExistingInFile(ctx, path, store.New(copied, store.Options{Random: rand.Reader, Now: time.Now}))
	if err != nil {
		return sum, err
	}
	accountKey, err := accountKeyOf(d.dir)
	if err != nil {
		return sum, err
	}
	return transfer.Write(ctx, transfer.Source{
		Items: copied.EachItem, Objects: files.OpenCopied(d.dir.Path(datadir.Objects), copied),
		Root: root, AccountKey: accountKey, Now: time.Now,
	}, keyFile, to)
}

// export writes what a DynamoDB and an S3 have.
func (p *place) export(ctx context.Context, keyFile string, to io.Writer) (sum transfer.Summary, err error) {
	root, err := p.keeper.Root(ctx)
	if err != nil {
		return sum, fmt.Errorf("read the root key of %s: %w", p.name, err)
	}
	var accountKey []byte
	if p.dir != nil {
		if accountKey, err = accountKeyOf(p.dir); err != nil {
			return sum, err
		}
	}
	return transfer.Write(ctx, transfer.Source{
		Items: p.items, Objects: p.bucket, Root: root, AccountKey: accountKey, Moving: true, Now: time.Now,
	}, keyFile, to)
}

func accountKeyOf(dir *datadir.Dir) ([]byte, error) {
	content, err := dir.Read(datadir.AccountKey)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the next start makes one
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
		Args: namesFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return errNoKeyFile
			}
			return a.atPlace(cmd, into, func(p *place) error { return p.fill(cmd, args[0], keyFile) }, func(cmd *cobra.Command, args []string) error {
				return a.program.newDirectory(cmd, func(ctx context.Context, dir string) (string, error) {
					sum, err := transfer.ImportDirectory(ctx, args[0], keyFile, dir)
					if errors.Is(err, transfer.ErrNotWhole) && begins(args[0], compressedForm) {
						err = fmt.Errorf("%w. It looks like a backup: restore makes an installation of it", err)
					}
					return imported(sum), err
				})
			}, args)
		},
	}
	c.Flags().StringVar(&keyFile, "key-file", "", "the file of the export's key")
	into.flags(c, "into")
	return c
}

func imported(sum transfer.Summary) string {
	return fmt.Sprintf("%d items and %d objects (%s) as they were on %s", sum.Items, sum.Objects, size(sum.Bytes), sum.MadeOn.UTC().Format(time.RFC3339))
}

// fill imports into a table and a bucket.
func (p *place) fill(cmd *cobra.Command, file, keyFile string) error {
	turn, err := turns()
	if err != nil {
		return err
	}
	r := transfer.Remote{Name: p.name, Table: p.table, Items: p.items, Bucket: p.bucket, Keeper: p.keeper, Turn: turn, Now: time.Now}
	if p.dir != nil {
		r.AccountKey = func(key []byte) error { return p.dir.Write(datadir.AccountKey, key) }
	}
	sum, err := transfer.Import(cmd.Context(), file, keyFile, r)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %s.\n", p.name, imported(sum))
	if k, ok := p.keeper.(*wrappedKey); ok && k.replaced {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "It had a root key that nothing was sealed under. Functions that hold it in memory know no key for up to an hour: leave them stopped (make stop-aws) for as long.")
	}
	return nil
}

package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/core/config"
)

func backupCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all of the installation into a file, while it runs or not",
		Long: `Write all of the installation into a file: table, objects, root key. The product may run meanwhile. Keep the file as you keep the root key,
which is in it.`,
		Args: oneFileArg,
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			if d.engine == nil || d.objects == nil {
				return errors.New("the data are not in files of ours alone: back up the DynamoDB table and the S3 bucket " +
					"that have them")
			}
			name := d.resolvePath(args[0])
			var summary backup.Summary
			err := backup.Create(name, d.dir.Path(), func(w io.Writer) (err error) {
				summary, err = backup.Write(cmd.Context(), backup.Source{
					Dir: d.dir.Path(), Engine: d.engine, Objects: d.objects,
					Now: time.Now,
				}, w)
				return err
			})
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %s and %d objects as they were on %s. The root key is in it: keep "+
				"it as you keep that.\n",
				args[0], formatSize(summary.Bytes), summary.Objects, summary.CreatedOn.UTC().Format(time.RFC3339))
			return nil
		}),
	}
}

func restoreCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directory of a backup",
		Long: "Make the data directory, " + config.VarDataDir + " or " + a.program.dataDir +
			", of a backup. It must not be there, or be empty.",
		Args: oneFileArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.program.newDirectory(cmd, func(ctx context.Context, dir string) (string, error) {
				summary, err := backup.Restore(ctx, args[0], dir)
				if errors.Is(err, backup.ErrInvalid) && fileHasPrefix(args[0], ageMagic) {
					err = fmt.Errorf("%w. It looks like a file of export-data: import-data makes an installation of it", err)
				}
				return fmt.Sprintf("%s and %d objects as they were on %s", formatSize(summary.Bytes), summary.Objects,
					summary.CreatedOn.UTC().Format(time.RFC3339)), err
			})
		},
	}
}

// newDirectory calls fill to create the data directory, and prints the summary that fill returns.
func (p Program) newDirectory(
	cmd *cobra.Command, fill func(ctx context.Context, dir string) (contents string, err error),
) error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" || s.s3 != "" || s.functions != "" {
		return fmt.Errorf("this makes a data directory, and %s, %s or %s has the data elsewhere: leave them empty",
			config.VarDynamoDBEndpoint, config.VarS3Endpoint, config.VarFunctions)
	}
	contents, err := fill(cmd.Context(), s.dataDir)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %s.\n", s.dataDir, contents)
	return nil
}

// The first bytes of a backup, which is compressed with zstd (RFC 8878), and of an export, which is sealed with age.
const (
	zstdMagic = "\x28\xb5\x2f\xfd"
	ageMagic  = "age-encryption.org/"
)

// fileHasPrefix reports whether a file begins with prefix. It returns false if the file cannot be read.
func fileHasPrefix(name, prefix string) bool {
	file, err := os.Open(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	head := make([]byte, len(prefix))
	_, err = io.ReadFull(file, head)
	return err == nil && string(head) == prefix
}

func oneFileArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one file: %s", cmd.UseLine())
	}
	return nil
}

func formatSize(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// offlineObjects are the objects during a backup while the product does not run: no process deletes them.
type offlineObjects struct{}

// Retain implements backup.Objects.
func (offlineObjects) Retain() func() error { return func() error { return nil } }

var _ backup.Objects = offlineObjects{}

// setOffline sets the fields that a backup needs while the product does not run.
func (d *database) setOffline(s settings, dir *datadir.Dir) {
	if d.dir = dir; s.s3 == "" && d.engine != nil {
		d.objects = offlineObjects{}
	}
}

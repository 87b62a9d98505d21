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
	"github.com/gatewright/gatewright/shared/config"
)

func backupCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all of the installation into a file, while it runs or not",
		Long: `Write all of the installation into a file: table, objects, root key. The product may run meanwhile. Keep the file as you keep the root key,
which is in it.`,
		Args: namesFile,
		RunE: a.command(func(cmd *cobra.Command, args []string, d *database) error {
			if d.engine == nil || d.objects == nil {
				return errors.New("the data are not in files of ours alone: back up the DynamoDB table and the S3 bucket that have them")
			}
			name := d.file(args[0])
			var sum backup.Summary
			err := backup.Create(name, d.dir.Path(), func(to io.Writer) (err error) {
				sum, err = backup.Write(cmd.Context(), backup.Source{Dir: d.dir.Path(), Engine: d.engine, Objects: d.objects, Now: time.Now}, to)
				return err
			})
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %s and %d objects as they were on %s. The root key is in it: keep it as you keep that.\n",
				args[0], size(sum.Bytes), sum.Objects, sum.MadeOn.UTC().Format(time.RFC3339))
			return nil
		}),
	}
}

func restoreCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directory of a backup",
		Long:  "Make the data directory, " + config.VarDataDir + " or " + a.program.dataDir + ", of a backup. It must not be there, or be empty.",
		Args:  namesFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.program.newDirectory(cmd, func(ctx context.Context, dir string) (string, error) {
				sum, err := backup.Restore(ctx, args[0], dir)
				if errors.Is(err, backup.ErrNotWhole) && begins(args[0], sealedForm) {
					err = fmt.Errorf("%w. It looks like a file of export-data: import-data makes an installation of it", err)
				}
				return fmt.Sprintf("%s and %d objects as they were on %s", size(sum.Bytes), sum.Objects, sum.MadeOn.UTC().Format(time.RFC3339)), err
			})
		},
	}
}

// newDirectory has a data directory made, and says what is in it.
func (p Program) newDirectory(cmd *cobra.Command, fill func(ctx context.Context, dir string) (holds string, err error)) error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" || s.s3 != "" || s.functions != "" {
		return fmt.Errorf("this makes a data directory, and %s, %s or %s has the data elsewhere: leave them empty",
			config.VarDynamoDBEndpoint, config.VarS3Endpoint, config.VarFunctions)
	}
	holds, err := fill(cmd.Context(), s.dataDir)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s holds %s.\n", s.dataDir, holds)
	return nil
}

// What files of the two kinds begin with: a backup is compressed, an export sealed (RFC 8878, and age's version line).
const (
	compressedForm = "\x28\xb5\x2f\xfd"
	sealedForm     = "age-encryption.org/"
)

// begins reports whether a file begins with text. One that cannot be read does not.
func begins(name, text string) bool {
	file, err := os.Open(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	first := make([]byte, len(text))
	_, err = io.ReadFull(file, first)
	return err == nil && string(first) == text
}

func namesFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one file: %s", cmd.UseLine())
	}
	return nil
}

func size(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// unused are objects that nobody deletes meanwhile: the product does not run.
type unused struct{}

// Retain implements backup.Objects.
func (unused) Retain() func() error { return func() error { return nil } }

var _ backup.Objects = unused{}

// atRest adds what a backup of a product needs that does not run.
func (d *database) atRest(s settings, dir *datadir.Dir) {
	if d.dir = dir; s.s3 == "" && d.engine != nil {
		d.objects = unused{}
	}
}

package product

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/integrity"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// Folders in the data directory for the copies that are checked. The command does not wait for the daily check, so each has its own.
const (
	dailyFolder   = "check-daily"
	commandFolder = "check"
)

func checkCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Read all data and report what is damaged, while the product runs or not",
		Long: `Read all data and report what is damaged: every block of the store's tables by its checksum, every object by its digest, and the root key. It prints one
line for each damage, and ends with the status 1 if there is any. The product may run meanwhile; it does the same once a day, slowly.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.own != nil {
				return a.own.check(cmd)
			}
			return a.program.check(cmd)
		},
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("this command takes no argument: %s", cmd.UseLine())
	}
	return nil
}

// errElsewhere refuses to check data that are not in a data directory.
var errElsewhere = errors.New("the data are not in a data directory: DynamoDB and S3 check their own data")

// check checks the data of the product that runs.
func (d *database) check(cmd *cobra.Command) error {
	if d.engine == nil {
		return errElsewhere
	}
	r, err := integrity.Running(cmd.Context(), integrity.Source{Dir: d.dir.Path(), Objects: d.objects != nil}, integrity.Live{Engine: d.engine, Objects: d.objects}, commandFolder)
	return printDamage(cmd, r, err)
}

// check checks the data directory. If a process runs the product, that process makes the check.
func (p Program) check(cmd *cobra.Command) error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" || s.functions != "" {
		return errElsewhere
	}
	if err := p.holdsInstallation(); err != nil {
		return err
	}
	return p.withDirectory(cmd.Context(), s, asTyped(cmd, nil), cmd.OutOrStdout(), cmd.ErrOrStderr(), func(dir *datadir.Dir) error {
		r, err := integrity.AtRest(cmd.Context(), integrity.Source{Dir: dir.Path(), Objects: s.s3 == ""})
		return printDamage(cmd, r, err)
	})
}

// printDamage prints what a check found. It returns an error if data are damaged or if the check did not finish.
func printDamage(cmd *cobra.Command, r integrity.Report, err error) error {
	if err != nil {
		return err
	}
	for _, damage := range r.Damage {
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), "damaged:", damage)
	}
	if n := len(r.Damage); n > 0 {
		return fmt.Errorf("the data are damaged at %d %s: restore the last backup into another data directory, and keep this one", n, plural(n, "place"))
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Nothing is damaged: the store (%s), %d %s (%s) and the root key were read.\n",
		size(r.StoreBytes), r.Objects, plural(r.Objects, "object"), size(r.ObjectBytes))
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// keepChecking checks the data once a day until ctx ends.
func (o *opened) keepChecking(ctx context.Context, log *slog.Logger) {
	engine := o.engine()
	if engine == nil {
		return // the data are elsewhere
	}
	for _, folder := range []string{dailyFolder, commandFolder} {
		if err := integrity.RemoveLeft(o.dir.Path(folder)); err != nil {
			log.WarnContext(ctx, "the copy of a check that was killed cannot be removed", "error", err)
		}
	}
	source, live := integrity.Source{Dir: o.dir.Path(), Objects: o.bucket.files != nil}, integrity.Live{Engine: engine}
	if o.bucket.files != nil {
		live.Objects = o.bucket.files
	}
	integrity.Daily{
		Check: func(ctx context.Context) (integrity.Report, error) {
			bytes, err := source.Bytes()
			if err != nil {
				return integrity.Report{}, err
			}
			source.BytesPerSecond = integrity.DailyRate(bytes)
			return integrity.Running(ctx, source, live, dailyFolder)
		},
		Notes: engine, Log: log,
		Ended: func(last integrity.Last) { o.checked.Store(&last) },
	}.Run(ctx)
}

// engine returns the store in the data directory: the table's, or that of the objects' notes. It returns nil if both are elsewhere.
func (o *opened) engine() *embedded.Backend {
	if o.database.engine != nil {
		return o.database.engine
	}
	return o.notes
}

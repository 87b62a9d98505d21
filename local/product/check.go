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
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// The folders in the data directory into which a check copies the store. The command can run during the daily check, so
// each has its own folder.
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.running != nil {
				return a.running.check(cmd)
			}
			return a.program.check(cmd)
		},
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("this command takes no argument: %s", cmd.UseLine())
	}
	return nil
}

// errNoLocalData reports that the data cannot be checked because they are not in a data directory.
var errNoLocalData = errors.New("the data are not in a data directory: DynamoDB and S3 check their own data")

// check checks the data of the product that this process runs.
func (d *database) check(cmd *cobra.Command) error {
	if d.engine == nil {
		return errNoLocalData
	}
	r, err := integrity.CheckOnline(cmd.Context(), integrity.Source{Dir: d.dir.Path(), Objects: d.objects != nil},
		integrity.Live{Engine: d.engine, Objects: d.objects}, commandFolder)
	return printDamage(cmd, r, err)
}

// check checks the data directory. If another process runs the product, that process checks it.
func (p Program) check(cmd *cobra.Command) error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" || s.functions != "" {
		return errNoLocalData
	}
	if err := p.checkInstallation(); err != nil {
		return err
	}
	return p.withDirectory(cmd.Context(), s, typedArgs(cmd, nil), cmd.OutOrStdout(), cmd.ErrOrStderr(),
		func(dir *datadir.Dir) error {
			r, err := integrity.CheckOffline(cmd.Context(), integrity.Source{Dir: dir.Path(), Objects: s.s3 == ""})
			return printDamage(cmd, r, err)
		})
}

// printDamage prints the result of a check. It returns an error if data is damaged or if the check did not finish.
func printDamage(cmd *cobra.Command, r integrity.Report, err error) error {
	if err != nil {
		return err
	}
	for _, damage := range r.Damage {
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), "damaged:", damage)
	}
	if n := len(r.Damage); n > 0 {
		return fmt.Errorf("the data are damaged at %d %s: restore the last backup into another data directory, and "+
			"keep this one", n, plural(n, "place"))
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Nothing is damaged: the store (%s), %d %s (%s) and the root key were read.\n",
		formatSize(r.StoreBytes), r.Objects, plural(r.Objects, "object"), formatSize(r.ObjectBytes))
	return nil
}

func plural(n int, singular string) string {
	if n == 1 {
		return singular
	}
	return singular + "s"
}

// runDailyChecks checks the data once a day until ctx ends. It first removes the copies of killed checks.
func (r *resources) runDailyChecks(ctx context.Context, log *slog.Logger) {
	engine := r.engine()
	if engine == nil {
		return // no data is in the data directory
	}
	for _, folder := range []string{dailyFolder, commandFolder} {
		if err := integrity.RemoveStale(r.dir.Path(folder)); err != nil {
			log.WarnContext(ctx, "the copy of a check that was killed cannot be removed", "error", err)
		}
	}
	source, live := integrity.Source{Dir: r.dir.Path(), Objects: r.bucket.files != nil}, integrity.Live{Engine: engine}
	if r.bucket.files != nil {
		live.Objects = r.bucket.files
	}
	integrity.Daily{
		Check: func(ctx context.Context) (integrity.Report, error) {
			bytes, err := source.Bytes()
			if err != nil {
				return integrity.Report{}, err
			}
			source.BytesPerSecond = integrity.DailyRate(bytes)
			return integrity.CheckOnline(ctx, source, live, dailyFolder)
		},
		Notes: engine, Log: log,
		OnFinished: func(last integrity.LastCheck) { r.lastCheck.Store(&last) },
	}.Run(ctx)
}

// engine returns the store in the data directory, which contains the table
// or only the notes of the objects. It returns nil if both are elsewhere.
func (r *resources) engine() *embedded.Backend {
	if r.database.engine != nil {
		return r.database.engine
	}
	return r.objectEngine
}

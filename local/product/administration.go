package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/local/control"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/preflight"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/base/processes"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/config"
)

// administration runs commands on an installation's database. While the product runs, only its process can open the
// files, so it also runs the commands that users type in other processes.
type administration struct {
	program Program
	// running is the database of the product if this process runs it, and otherwise nil.
	running *database
}

// databaseFunc is the part of a command that uses the database.
type databaseFunc func(cmd *cobra.Command, args []string, d *database) error

// requireInstallation returns a command's RunE that fails if the data directory contains no installation, instead of
// creating one. Otherwise a backup timer without the setting for the data directory would create and back up an empty
// installation.
func (a administration) requireInstallation(do databaseFunc) func(*cobra.Command, []string) error {
	return a.runWithDatabase(do, a.program.checkInstallation)
}

// createInstallationIfMissing returns a command's RunE that creates the installation if there is none.
func (a administration) createInstallationIfMissing(do databaseFunc) func(*cobra.Command, []string) error {
	return a.runWithDatabase(do, func() error { return nil })
}

// runWithDatabase returns a command's RunE that calls do with the database. If this process does not run the product,
// the RunE calls check first, and then withDatabase.
func (a administration) runWithDatabase(do databaseFunc, check func() error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.running != nil {
			return do(cmd, args, a.running)
		}
		if err := check(); err != nil {
			return err
		}
		return a.program.withDatabase(cmd.Context(), typedArgs(cmd, args), cmd.OutOrStdout(), cmd.ErrOrStderr(),
			func(d *database) error {
				return do(cmd, args, d)
			})
	}
}

// checkInstallation returns an error if the settings place the table in the data directory, but the directory contains
// no part of an installation. It also returns an error if the directory contains the data of an emulator. If only some
// parts are missing, the code that opens the data reports this.
func (p Program) checkInstallation() error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" || s.functions != "" {
		return nil // the table is elsewhere, or in an emulator
	}
	if err := preflight.RefuseEmulators(s.dataDir); err != nil {
		return err
	}
	for _, name := range []string{rootkey.Name, datadir.Engine, datadir.Objects, datadir.AccountKey} {
		if _, err := os.Lstat(filepath.Join(s.dataDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil // it exists, or cannot be read: the code that opens it reports the reason
		}
	}
	return fmt.Errorf("the data directory %s holds no installation: name the one that has it in %s; the first start of "+
		"the product makes one", s.dataDir, config.VarDataDir)
}

// rejectUnusedData returns an error if the data directory has data that this run would not use: data of emulators, or
// data of the store if functions are separate processes. Otherwise the run would create an empty installation next to
// that data, and replace its account key.
func (s settings) rejectUnusedData() error {
	if s.functions == "" {
		return preflight.RefuseEmulators(s.dataDir)
	}
	if _, err := os.Lstat(filepath.Join(s.dataDir, datadir.Engine)); err == nil {
		return fmt.Errorf("%s holds data that a run with %s does not use: name another directory in %s", s.dataDir,
			config.VarFunctions, config.VarDataDir)
	}
	return nil
}

// typedArgs returns the arguments of a command line that runs cmd with its flags and args.
func typedArgs(cmd *cobra.Command, args []string) []string {
	argv := strings.Fields(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()))
	cmd.Flags().Visit(func(f *pflag.Flag) { argv = append(argv, "--"+f.Name+"="+f.Value.String()) })
	return append(append(argv, "--"), args...)
}

// commandRunner returns a control.Runner that runs commands of other processes on the data that this process has open.
func (p Program) commandRunner(res *resources) control.Runner {
	return func(ctx context.Context, c control.Command, out, errOut io.Writer) error {
		d := *res.database
		if d.dir, d.workDir = res.dir, c.Dir; res.bucket.files != nil {
			d.objects = res.bucket.files
		}
		root := p.command(administration{program: p, running: &d}) //nolint:contextcheck // ExecuteContext passes ctx
		root.SetArgs(c.Args)
		root.SetOut(out)
		root.SetErr(errOut)
		return root.ExecuteContext(ctx)
	}
}

// errDelegated ends the wait for the data directory, because the command was sent to the process that uses it.
var errDelegated = errors.New("the product that runs was asked")

// withDatabase calls do with the database of the installation. If the data is in the data directory and another process
// runs the product, that process runs the command args instead.
func (p Program) withDatabase(
	ctx context.Context, args []string, out, errOut io.Writer, do func(*database) error,
) error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" {
		d, err := connect(ctx, s, s.dynamoDB)
		if err != nil {
			return endpointError(err, config.VarDynamoDBEndpoint)
		}
		return do(d)
	}
	return p.withDirectory(ctx, s, args, out, errOut, func(dir *datadir.Dir) (err error) {
		t := terminal.New(os.Stderr, terminal.SupportsColor(os.Stderr, os.Getenv))
		d, err := openDatabase(ctx, s, dir, t, slog.New(t.Lines(slog.LevelWarn)), nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.stop(), dir.ReturnOwnership()) }()
		d.setOffline(s, dir)
		return do(d)
	})
}

// withDirectory locks the data directory and calls do with it. If another
// process runs the product, that process runs the command args instead.
func (p Program) withDirectory(
	ctx context.Context, s settings, args []string, out, errOut io.Writer, do func(*datadir.Dir) error,
) error {
	if err := s.rejectUnusedData(); err != nil {
		return err
	}
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		return err
	}
	delegated := false
	var delegatedErr error
	l, err := lock(ctx, dir, strings.Join(args[:min(2, len(args))], " "), func(state datadir.State) error {
		if state.Command != runCommand || state.Control.Address == "" {
			return nil // another command or a start has the lock for a short time: try again
		}
		workDir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("find the folder: %w", err)
		}
		noticeTimer := time.AfterFunc(slowNoticeDelay, func() {
			terminal.New(os.Stderr, terminal.SupportsColor(os.Stderr, os.Getenv)).Step(
				"Process %d, which runs the product, has not answered yet. Ctrl-C ends the wait.", state.PID)
		})
		defer noticeTimer.Stop()
		delegatedErr = control.Run(ctx, state.Control, control.Command{Args: args, Dir: workDir}, out, errOut)
		if delegated = !errors.Is(delegatedErr, control.ErrUnreachable); delegated {
			return errDelegated
		}
		return nil // the product is about to end or to restart: try again
	})
	if delegated {
		return delegatedErr
	}
	if err != nil {
		return err
	}
	defer l.Release()
	defer dir.ClearState()
	return do(dir)
}

// lockWait is the maximum time for which a command or a start waits for another process that uses the data directory.
const lockWait = 15 * time.Second

// slowNoticeDelay is the time after which a command reports that the product has not
// responded yet, such as during a large backup or while the product is suspended.
const slowNoticeDelay = 5 * time.Second

// lockedFunc decides what to do while another process has the lock: it returns an error, or nil to try again.
type lockedFunc func(datadir.State) error

// lock locks the data directory, and saves command in the run state. While another process has the lock, lock calls
// onLocked and tries again, for at most lockWait.
func lock(ctx context.Context, dir *datadir.Dir, command string, onLocked lockedFunc) (*datadir.Lock, error) {
	deadline := time.Now().Add(lockWait)
	for {
		l, err := dir.Lock()
		if err == nil {
			state := datadir.State{PID: os.Getpid(), Command: command, StartedOn: time.Now().UTC()}
			if err := dir.SaveState(state); err != nil {
				l.Release()
				return nil, err
			}
			return l, nil
		}
		if !errors.Is(err, datadir.ErrInUse) {
			return nil, err
		}
		state, err := dir.LoadState()
		if err != nil {
			return nil, err
		}
		// If the process in the state is not running, an earlier holder of the lock saved the state.
		if processes.Running(state.PID) {
			if err := onLocked(state); err != nil {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the data directory %s is in use by process %d (%s): wait for it, or name another "+
				"directory in %s",
				dir.Path(), state.PID, state.Command, config.VarDataDir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

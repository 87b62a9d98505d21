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
	"github.com/gatewright/gatewright/local/processes"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/config"
)

// administration runs commands that work on an installation's database. The
// process that runs the product has its files, and does what others are asked to.
type administration struct {
	program Program
	// own is the database of the product that this process runs, nil for none.
	own *database
}

// work is what a command does with the database.
type work func(cmd *cobra.Command, args []string, d *database) error

// command makes work a command's that needs an installation: where there is none, it makes none. A backup by a timer that
// has lost its setting would be one of nothing, night after night.
func (a administration) command(do work) func(*cobra.Command, []string) error {
	return a.working(do, a.program.holdsInstallation)
}

// making makes work a command's that may be the first one of an installation.
func (a administration) making(do work) func(*cobra.Command, []string) error {
	return a.working(do, func() error { return nil })
}

func (a administration) working(do work, check func() error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.own != nil {
			return do(cmd, args, a.own)
		}
		if err := check(); err != nil {
			return err
		}
		return a.program.withDatabase(cmd.Context(), asTyped(cmd, args), cmd.OutOrStdout(), cmd.ErrOrStderr(), func(d *database) error {
			return do(cmd, args, d)
		})
	}
}

// holdsInstallation refuses a data directory with none in it, where the data would be. A root key without data is that of a start
// that was killed, and data without a root key are damaged: both are told by what opens them.
func (p Program) holdsInstallation() error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" || s.functions != "" {
		return nil // the table is elsewhere, or an emulator's
	}
	if err := preflight.RefuseEmulators(s.dataDir); err != nil {
		return err
	}
	for _, name := range []string{rootkey.Name, datadir.Engine, datadir.Objects, datadir.AccountKey} {
		if _, err := os.Lstat(filepath.Join(s.dataDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil // what cannot be looked at is told where it is opened
		}
	}
	return fmt.Errorf("the data directory %s holds no installation: name the one that has it in %s; the first start of the product makes one", s.dataDir, config.VarDataDir)
}

// refuseOthers refuses a data directory whose data this run would not use: data of emulators, or data of the store if
// functions are separate processes. Otherwise the run would make an empty installation beside them, and replace their account key.
func (s settings) refuseOthers() error {
	if s.functions == "" {
		return preflight.RefuseEmulators(s.dataDir)
	}
	if _, err := os.Lstat(filepath.Join(s.dataDir, datadir.Engine)); err == nil {
		return fmt.Errorf("%s holds data that a run with %s does not use: name another directory in %s", s.dataDir, config.VarFunctions, config.VarDataDir)
	}
	return nil
}

// asTyped gives a command's words.
func asTyped(cmd *cobra.Command, args []string) []string {
	words := strings.Fields(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()))
	cmd.Flags().Visit(func(f *pflag.Flag) { words = append(words, "--"+f.Name+"="+f.Value.String()) })
	return append(append(words, "--"), args...)
}

// runHere runs commands that other processes ask for, over what this one has opened.
func (p Program) runHere(o *opened) control.Runner {
	return func(ctx context.Context, c control.Command, out, remarks io.Writer) error {
		d := *o.database
		if d.dir, d.folder = o.dir, c.Dir; o.bucket.files != nil {
			d.objects = o.bucket.files
		}
		root := p.command(administration{program: p, own: &d}) //nolint:contextcheck // it has ctx from ExecuteContext
		root.SetArgs(c.Args)
		root.SetOut(out)
		root.SetErr(remarks)
		return root.ExecuteContext(ctx)
	}
}

// errAsked ends the wait for a data directory whose holder was asked instead.
var errAsked = errors.New("the product that runs was asked")

// withDatabase calls do with the database of the installation, or has the process
// that runs it do what was typed.
func (p Program) withDatabase(ctx context.Context, typed []string, out, remarks io.Writer, do func(*database) error) error {
	s, err := p.settings(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" {
		d, err := connect(ctx, s, s.dynamoDB)
		if err != nil {
			return elsewhere(err, config.VarDynamoDBEndpoint)
		}
		return do(d)
	}
	return p.withDirectory(ctx, s, typed, out, remarks, func(dir *datadir.Dir) (err error) {
		t := terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv))
		d, err := openDatabase(ctx, s, dir, t, slog.New(t.Lines(slog.LevelWarn)), nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.stop(), dir.Return()) }()
		d.atRest(s, dir)
		return do(d)
	})
}

// withDirectory locks the data directory and calls do with it. If a process runs the product, that process runs the typed command.
func (p Program) withDirectory(ctx context.Context, s settings, typed []string, out, remarks io.Writer, do func(*datadir.Dir) error) error {
	if err := s.refuseOthers(); err != nil {
		return err
	}
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		return err
	}
	asked := false
	var answer error
	l, err := lock(ctx, dir, strings.Join(typed[:min(2, len(typed))], " "), func(state datadir.State) error {
		if state.Command != runCommand || state.Control.Address == "" {
			return nil // another short command, or a start: it will not be long
		}
		folder, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("find the folder: %w", err)
		}
		late := time.AfterFunc(lateAnswer, func() {
			terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv)).Step("Process %d, which runs the product, has not answered yet. Ctrl-C ends the wait.", state.PID)
		})
		defer late.Stop()
		answer = control.Ask(ctx, state.Control, control.Command{Args: typed, Dir: folder}, out, remarks)
		if asked = !errors.Is(answer, control.ErrUnreachable); asked {
			return errAsked
		}
		return nil // it is about to end, or to start again: try once more
	})
	if asked {
		return answer
	}
	if err != nil {
		return err
	}
	defer l.Release()
	defer dir.ClearState()
	return do(dir)
}

// lockWait is how long a short command may hold the data directory before
// another one gives up.
const lockWait = 15 * time.Second

// lateAnswer is when it is said that the product takes its time, such as for a
// large backup, or because somebody stopped it.
const lateAnswer = 5 * time.Second

// holder answers what to do while another process has the lock: an error, or
// nil to try again.
type holder func(datadir.State) error

// lock takes the data directory's lock. As long as another process has it, it
// asks what to do.
func lock(ctx context.Context, dir *datadir.Dir, command string, held holder) (*datadir.Lock, error) {
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
		// What a killed process left behind says nothing about the holder.
		if processes.Running(state.PID) {
			if err := held(state); err != nil {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the data directory %s is in use by process %d (%s): wait for it, or name another directory in %s",
				dir.Path(), state.PID, state.Command, config.VarDataDir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

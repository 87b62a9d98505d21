package product

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

func operationCommand(a administration) *cobra.Command {
	group := &cobra.Command{Use: "operation", Short: "Look durable operations up, and resume one"}
	commandline.MakeGroup(group)
	group.AddCommand(listOperationsCommand(a), &cobra.Command{
		Use:   "resume ID",
		Short: "Have an operation tried at once that waits for its next attempt",
		Long: `Have an operation tried at once that waits for its next attempt, when what kept it is mended. While the product runs it is tried within a
minute, else with the next start.

This is safe at any time and as often as you like: it only says that the operation is due. One that a worker has is left to it, and two workers
never do a step twice.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one operation, by its id: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			e, err := d.operationEngine()
			if err != nil {
				return err
			}
			r, err := e.Resume(cmd.Context(), args[0])
			if err != nil {
				return publicError(err)
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Operation %s (%s) is due now.\n", r.ID, r.Kind)
			return nil
		}),
	})
	return group
}

func listOperationsCommand(a administration) *cobra.Command {
	var all bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List the operations that do not get on: tried in vain, or late",
		Long: `List the durable operations that do not get on, those first that were tried in vain most often: their step has failed, or has been due for more than
two minutes. --all lists all that have not ended, with those that are planned for later, such as clean-ups after builds.`,
		Args: cobra.NoArgs,
		RunE: a.requireInstallation(func(cmd *cobra.Command, _ []string, d *database) error {
			e, err := d.operationEngine()
			if err != nil {
				return err
			}
			records, err := e.List(cmd.Context())
			if err != nil {
				return err
			}
			unfinished := len(records)
			if now := time.Now(); !all {
				records = slices.DeleteFunc(records, func(r operation.Record) bool { return !r.IsLate(now) })
			}
			switch {
			case unfinished == 0:
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "No operation is under way.")
				return nil
			case len(records) == 0:
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "All operations get on: %d under way or planned. --all lists them.\n",
					unfinished)
				return nil
			}
			names, err := accountNames(cmd.Context(), d.accounts(), records)
			if err != nil {
				return err
			}
			return printOperations(cmd.OutOrStdout(), names, records)
		}),
	}
	list.Flags().BoolVar(&all, "all", false, "list those too that get on, or are planned for later")
	return list
}

// accountNames returns the names of the operations' accounts, by ID. The name is the ID if the account has none, and
// "-" for an operation without an account.
func accountNames(ctx context.Context, s *accounts.Service, records []operation.Record) (map[string]string, error) {
	names := map[string]string{"": "-"}
	for _, r := range records {
		if _, known := names[r.AccountID]; known {
			continue
		}
		name, err := s.NameOf(ctx, r.AccountID)
		if err != nil {
			return nil, err
		}
		names[r.AccountID] = cmp.Or(name, r.AccountID)
	}
	return names, nil
}

// operationEngine returns an engine to list, begin and resume operations. Do not run operations with it: their tasks
// may need parts that are missing here, such as the bucket.
func (d *database) operationEngine() (*operation.Engine, error) {
	return durable.Engine(d.parts())
}

// parts returns the parts that are necessary to read and begin operations.
func (d *database) parts() installation.Parts {
	return installation.Parts{Table: d.table, IDs: d.ids, Key: d.key, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// printOperations prints a table with one line per operation.
func printOperations(out io.Writer, names map[string]string, records []operation.Record) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tKIND\tACCOUNT\tSTATE\tATTEMPTS\tSINCE\tNEXT\tLAST FAILURE")
	for _, r := range records {
		s := r.Summary()
		next := s.NextAttempt.UTC().Format(time.RFC3339)
		if s.Running {
			next = "runs"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.ID, s.Kind, names[s.AccountID],
			cmp.Or(s.State, "-"),
			s.FailedAttempts, s.Since.UTC().Format(time.RFC3339), next, cmp.Or(s.LastFailure, "-"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print operations: %w", err)
	}
	return nil
}

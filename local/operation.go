package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
)

func operationCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "operation", Short: "Look durable operations up, and resume one", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("name what to do: local operation list, or local operation resume ID")
		},
	}
	group.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the operations that have not ended, those that do not get on first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withOperations(cmd.Context(), "operation list", func(ctx context.Context, e *operation.Engine) error {
				found, err := e.List(ctx)
				if err != nil {
					return err
				}
				return printOperations(cmd.OutOrStdout(), cmd.ErrOrStderr(), found)
			})
		},
	}, &cobra.Command{
		Use:   "resume ID",
		Short: "Have an operation tried at once that waits for its next attempt",
		Long: `Have an operation tried at once that waits for its next attempt, when what kept it is mended. While the product runs it is tried within a
minute, else with the next start.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one operation, by its id: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withOperations(cmd.Context(), "operation resume", func(ctx context.Context, e *operation.Engine) error {
				r, err := e.Resume(ctx, args[0])
				if err != nil {
					return plain(err)
				}
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Operation %s (%s) is due now.\n", r.ID, r.Kind)
				return nil
			})
		},
	})
	return group
}

// withOperations calls do with the installation's operations, of which it runs
// none: their tasks may want what is not there, such as the bucket.
func withOperations(ctx context.Context, name string, do func(context.Context, *operation.Engine) error) error {
	return withDatabase(ctx, name, func(ctx context.Context, d *database) error {
		e, err := durable.Engine(installation.Parts{Table: d.table, IDs: d.ids, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return do(ctx, e)
	})
}

// printOperations prints a table for people, one line an operation.
func printOperations(out, remarks io.Writer, found []operation.Record) error {
	if len(found) == 0 {
		_, _ = fmt.Fprintln(remarks, "No operation is under way.")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tKIND\tACCOUNT\tSTATE\tATTEMPTS\tSINCE\tNEXT\tLAST FAILURE")
	for _, r := range found {
		s := r.Summary()
		next := s.NextAttempt.UTC().Format(time.RFC3339)
		if s.Running {
			next = "runs"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.ID, s.Kind, cmp.Or(s.AccountID, "-"), cmp.Or(s.State, "-"),
			s.AttemptsInVain, s.Since.UTC().Format(time.RFC3339), next, cmp.Or(s.LastFailure, "-"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print operations: %w", err)
	}
	return nil
}

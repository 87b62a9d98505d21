package product

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/installation"
)

func auditCommand(a administration) *cobra.Command {
	group := &cobra.Command{Use: "audit", Short: "Verify and export an account's audit log"}
	commandline.Group(group)
	group.AddCommand(verifyCommand(a), &cobra.Command{
		Use:   "export ACCOUNT FILE",
		Short: "Write an account's audit log into a file, as JSON lines that can be verified anywhere",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name an account and the file to write: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: a.command(func(cmd *cobra.Command, args []string, d *database) error {
			t, accountID, err := d.trail(cmd, args[0])
			if err != nil {
				return err
			}
			var r proof.Report
			err = backup.Create(d.file(args[1]), d.dir.Path(), func(to io.Writer) (err error) {
				if r, err = t.Export(cmd.Context(), accountID, args[0], to); err == nil {
					err = broken(r)
				}
				return err
			})
			if err != nil {
				return err
			}
			key, err := t.PublicKey(cmd.Context())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "The public key is %s.\n", key)
			return printReport(cmd, r, "were written to "+args[1])
		}),
	})
	return group
}

func verifyCommand(a administration) *cobra.Command {
	var noted, publicKey string
	verify := &cobra.Command{
		Use:   "verify ACCOUNT [FILE]",
		Short: "Prove that nothing of an account's audit log was removed, altered, inserted or reordered",
		Long: `Prove that nothing of an account's audit log was removed, altered, inserted or reordered, and say at which record it was, if so.

With FILE an export is verified, without the log itself; with --public-key, which the export has printed, without any data of this installation.
ACCOUNT is then the account's name or id: an export is of one account, and proves nothing about another.
--noted is the end that an earlier run has printed: who can write the table can put the whole log back to an earlier state, which only that tells.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return fmt.Errorf("name one account: %s", cmd.UseLine())
			}
			if publicKey != "" && len(args) == 1 {
				return errors.New("--public-key is for an export: name its file too")
			}
			return nil
		},
	}
	place := func() (proof.Commitment, error) {
		if noted == "" {
			return proof.Commitment{}, nil
		}
		c, err := proof.ParseCommitment(noted)
		if err != nil {
			return c, fmt.Errorf("--noted: %w", err)
		}
		return c, nil
	}
	file := func(cmd *cobra.Command, name, account string, key proof.PublicKey) error {
		c, err := place()
		if err != nil {
			return err
		}
		in, err := os.Open(name) //nolint:gosec // G304: the file that was named
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		r, err := proof.VerifyFile(in, key, account, c)
		if err != nil {
			return err
		}
		return verified(cmd, r)
	}
	inData := a.command(func(cmd *cobra.Command, args []string, d *database) error {
		t, accountID, err := d.trail(cmd, args[0])
		if err != nil {
			return err
		}
		if len(args) == 2 {
			key, err := t.PublicKey(cmd.Context())
			if err != nil {
				return err
			}
			return file(cmd, d.file(args[1]), accountID, key)
		}
		c, err := place()
		if err != nil {
			return err
		}
		r, err := t.Verify(cmd.Context(), accountID, c)
		if err != nil {
			return err
		}
		return verified(cmd, r)
	})
	verify.RunE = func(cmd *cobra.Command, args []string) error {
		if publicKey == "" {
			return inData(cmd, args)
		}
		key, err := proof.ParsePublicKey(publicKey)
		if err != nil {
			return fmt.Errorf("--public-key: %w", err)
		}
		return file(cmd, args[1], args[0], key)
	}
	verify.Flags().StringVar(&noted, "noted", "", "an end that was printed before, NUMBER:HASH, which the log has to have still")
	verify.Flags().StringVar(&publicKey, "public-key", "", "the installation's public key, to verify an export anywhere")
	return verify
}

// broken is the error for a log that is not what it was.
func broken(r proof.Report) error {
	if r.Break == "" {
		return nil
	}
	return fmt.Errorf("the audit log is broken: %s", r.Break)
}

func verified(cmd *cobra.Command, r proof.Report) error {
	if err := broken(r); err != nil {
		return err
	}
	return printReport(cmd, r, "are as they were signed")
}

// printReport prints a log that is whole: on standard output its end, which is
// worth noting, for a person what it is on standard error.
func printReport(cmd *cobra.Command, r proof.Report, what string) error {
	if r.Records() == 0 {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "The audit log has no chained records; %d wait to be chained.\n", r.Waiting)
		return nil
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), r.End); err != nil {
		return fmt.Errorf("print the end of the audit log: %w", err)
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%d records, %d to %d, %s; %d wait to be chained. Note the end elsewhere, for --noted.\n",
		r.Records(), r.First, r.Last, what, r.Waiting)
	return nil
}

// trail is the installation's audit trail, and an account's id.
func (d *database) trail(cmd *cobra.Command, account string) (*trail.Trail, string, error) {
	if d.key == nil {
		return nil, "", errors.New("the root key is not among our data: verify an export, with --public-key")
	}
	found, err := d.accounts().Find(cmd.Context(), account)
	if err != nil {
		return nil, "", plain(err)
	}
	return trail.Open(installation.Parts{Table: d.table, Key: d.key, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), found.ID, nil
}

// file is where a name leads that was typed in the folder of who asked.
func (d *database) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.folder, name)
}

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
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

func auditCommand(a administration) *cobra.Command {
	group := &cobra.Command{Use: "audit", Short: "Verify and export an account's audit log"}
	commandline.MakeGroup(group)
	group.AddCommand(verifyCommand(a), &cobra.Command{
		Use:   "export ACCOUNT FILE",
		Short: "Write an account's audit log into a file, as JSON lines that can be verified anywhere",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name an account and the file to write: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			t, accountID, err := d.trail(cmd, args[0])
			if err != nil {
				return err
			}
			var r proof.Report
			err = backup.Create(d.resolvePath(args[1]), d.dir.Path(), func(w io.Writer) (err error) {
				if r, err = t.Export(cmd.Context(), accountID, args[0], w); err == nil {
					err = checkIntact(r)
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
	var v verifyFlags
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
			if v.publicKey != "" && len(args) == 1 {
				return errors.New("--public-key is for an export: name its file too")
			}
			return nil
		},
	}
	withData := a.requireInstallation(v.verifyLog)
	verify.RunE = func(cmd *cobra.Command, args []string) error {
		if v.publicKey == "" {
			return withData(cmd, args)
		}
		key, err := proof.ParsePublicKey(v.publicKey)
		if err != nil {
			return fmt.Errorf("--public-key: %w", err)
		}
		return v.verifyFile(cmd, args[1], args[0], key)
	}
	verify.Flags().StringVar(&v.notedEnd, "noted", "",
		"an end that was printed before, NUMBER:HASH, which the log has to have still")
	verify.Flags().StringVar(&v.publicKey, "public-key", "", "the installation's public key, to verify an export anywhere")
	return verify
}

// verifyFlags has the flags of the command that verifies an audit log.
type verifyFlags struct{ notedEnd, publicKey string }

// expectedEnd returns the end of the log from the flag, as an earlier run
// has printed it. It returns the zero Commitment if the flag is not set.
func (v *verifyFlags) expectedEnd() (proof.Commitment, error) {
	if v.notedEnd == "" {
		return proof.Commitment{}, nil
	}
	c, err := proof.ParseCommitment(v.notedEnd)
	if err != nil {
		return c, fmt.Errorf("--noted: %w", err)
	}
	return c, nil
}

// verifyFile verifies an export of an audit log.
func (v *verifyFlags) verifyFile(cmd *cobra.Command, name, account string, key proof.PublicKey) error {
	c, err := v.expectedEnd()
	if err != nil {
		return err
	}
	file, err := os.Open(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	r, err := proof.VerifyFile(file, key, account, c)
	if err != nil {
		return err
	}
	return printVerified(cmd, r)
}

// verifyLog verifies the audit log of an account, or an export of it with the key of this installation.
func (v *verifyFlags) verifyLog(cmd *cobra.Command, args []string, d *database) error {
	t, accountID, err := d.trail(cmd, args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		key, err := t.PublicKey(cmd.Context())
		if err != nil {
			return err
		}
		return v.verifyFile(cmd, d.resolvePath(args[1]), accountID, key)
	}
	c, err := v.expectedEnd()
	if err != nil {
		return err
	}
	r, err := t.Verify(cmd.Context(), accountID, c)
	if err != nil {
		return err
	}
	return printVerified(cmd, r)
}

// checkIntact returns an error if the report says that the log was changed.
func checkIntact(r proof.Report) error {
	if r.Break == "" {
		return nil
	}
	return fmt.Errorf("the audit log is broken: %s", r.Break)
}

func printVerified(cmd *cobra.Command, r proof.Report) error {
	if err := checkIntact(r); err != nil {
		return err
	}
	return printReport(cmd, r, "are as they were signed")
}

// printReport prints the result for an intact log. It prints the end of the log, which
// the operator should store, to standard output, and a description to standard error.
func printReport(cmd *cobra.Command, r proof.Report, outcome string) error {
	if r.Records() == 0 {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "The audit log has no chained records; %d wait to be chained.\n", r.Waiting)
		return nil
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), r.End); err != nil {
		return fmt.Errorf("print the end of the audit log: %w", err)
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(),
		"%d records, %d to %d, %s; %d wait to be chained. Note the end elsewhere, for --noted.\n",
		r.Records(), r.First, r.Last, outcome, r.Waiting)
	return nil
}

// trail returns the installation's audit trail, and the ID of an account.
func (d *database) trail(cmd *cobra.Command, accountName string) (*trail.Trail, string, error) {
	if d.key == nil {
		return nil, "", errors.New("the root key is not among our data: verify an export, with --public-key")
	}
	account, err := d.accounts().Find(cmd.Context(), accountName)
	if err != nil {
		return nil, "", publicError(err)
	}
	return trail.Open(installation.Parts{Table: d.table, Key: d.key, Now: time.Now, Log: slog.New(slog.DiscardHandler)}),
		account.ID, nil
}

// resolvePath resolves a file name relative to the folder where the command was typed.
func (d *database) resolvePath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.workDir, name)
}

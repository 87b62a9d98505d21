package product

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

func listKeysCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "list ACCOUNT",
		Short: "List the keys of an account, never their text",
		Long: `List the keys of an account, the newest first, never their text. One that has expired stays in the list for 30 days, one that is revoked
is gone at once. A key that was made by a version without this list is there from its next use on.`,
		Args: oneAccountArg,
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			keys, err := d.accounts().Keys(cmd.Context(), args[0])
			if err != nil {
				return publicError(err)
			}
			return printKeys(cmd.OutOrStdout(), keys)
		}),
	}
}

func revokeKeyCommand(a administration) *cobra.Command {
	var force bool
	revoke := &cobra.Command{
		Use:   "revoke ACCOUNT ID",
		Short: "Revoke an account key, by its id in the list",
		Long:  `Revoke an account key, by its id in the list. It is refused everywhere within a minute, and nothing brings it back.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name an account and the id of one of its keys: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			if err := d.accounts().RevokeKey(cmd.Context(), args[0], args[1], force); fault.Is(err, fault.NotFound) {
				if _, err := d.accounts().Find(cmd.Context(), args[0]); err != nil {
					return publicError(err)
				}
				return fmt.Errorf("account %s has no key %s: %s key list %[1]s shows those it has", args[0], args[1],
					a.program.Invocation)
			} else if err != nil {
				return publicError(err)
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "The key %s is revoked. It is refused everywhere within a minute.\n", args[1])
			return nil
		}),
	}
	revoke.Flags().BoolVar(&force, "force", false, "revoke the last key that may everything too")
	return revoke
}

// printKeys prints a table with one line per key.
func printKeys(out io.Writer, keys []accounts.Key) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tLABEL\tMADE\tEXPIRES\tLAST USED\tSCOPES\tPROJECTS\tENVIRONMENTS")
	for _, k := range keys {
		expires := "never"
		if k.ExpiresOn != nil {
			expires = k.ExpiresOn.UTC().Format(time.RFC3339)
		}
		p := k.Permissions
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, cmp.Or(k.Label, "-"),
			k.CreatedOn.UTC().Format(time.RFC3339), expires,
			// formatList(p.Projects, false) shows all projects as *, because a project can be named "all"
			cmp.Or(k.LastUsedOn, "never"), formatList(p.Scopes, p.HasAllScopes()), formatList(p.Projects, false),
			formatList(p.Environments, len(p.Environments) == len(environment.Kinds())))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the keys: %w", err)
	}
	return nil
}

// formatList returns a list in the syntax of the flags.
func formatList[T ~string](list []T, all bool) string {
	switch {
	case all:
		return "all"
	case len(list) == 0:
		return "none"
	}
	items := make([]string, len(list))
	for i, item := range list {
		items[i] = string(item)
	}
	return strings.Join(items, ",")
}

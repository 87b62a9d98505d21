package product

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
)

func listLimitsCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "limits NAME",
		Short: "List the limits of an account",
		Long: `List the limits of an account: what bounds it, whether that is its own value or the installation's, and the most that it
has of it, "-" where that is known only by a count.`,
		Args: oneAccountArg,
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			statuses, err := d.accounts().Limits(cmd.Context(), args[0])
			if err != nil {
				return publicError(err)
			}
			return printLimits(cmd.OutOrStdout(), statuses)
		}),
	}
}

// inherited is the argument that resets a limit to the installation's value.
const inherited = "default"

func setLimitCommand(a administration) *cobra.Command {
	return &cobra.Command{
		Use:   "limit NAME LIMIT VALUE|default",
		Short: "Give an account a limit of its own, or back the installation's",
		Long: `Give an account a limit of its own, or back the installation's. An account that has more than a lowered limit keeps what it has,
and makes no more. It holds at once for what is made, and within half a minute for requests.

The limits are ` + limitNames() + `.`,
		Example: "  " + a.program.Invocation + " account limit demo projects 100",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 3 {
				return fmt.Errorf("name an account, one of its limits and a value: %s", cmd.UseLine())
			}
			l, err := limits.Find(limits.PerAccount(), args[1])
			if err != nil {
				return fmt.Errorf("%q is no limit that an account has its own of: write one of %s", args[1], limitNames())
			}
			_, err = limitValue(l, args[2])
			return err
		},
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			l, err := limits.Find(limits.PerAccount(), args[1])
			if err != nil {
				return publicError(err)
			}
			value, err := limitValue(l, args[2])
			if err != nil {
				return err
			}
			if err := d.accounts().SetLimit(cmd.Context(), args[0], l.Name, value); err != nil {
				return publicError(err)
			}
			statuses, err := d.accounts().Limits(cmd.Context(), args[0])
			if err != nil {
				return publicError(err)
			}
			return printLimits(cmd.OutOrStdout(), statuses)
		}),
	}
}

// limitValue parses the value of a limit. It returns 0 for inherited.
func limitValue(l limits.Limit, text string) (int64, error) {
	if text == inherited {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || l.Check(n) != nil {
		return 0, fmt.Errorf("%q is no value of %s: write 1 to %d, or %s for the installation's", text, l.Name, l.Max,
			inherited)
	}
	return n, nil
}

func limitNames() string {
	var out []string
	for _, l := range limits.PerAccount() {
		out = append(out, l.Name)
	}
	return strings.Join(out, ", ")
}

// printLimits prints a table with one line per limit.
func printLimits(out io.Writer, statuses []counts.Status) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "LIMIT\tVALUE\tOF\tTHERE ARE AT MOST\tWHAT")
	for _, s := range statuses {
		source, bound := "installation", "-"
		if s.Own {
			source = "account"
		}
		if s.Bound >= 0 {
			bound = strconv.FormatInt(s.Bound, 10)
		}
		description := s.Plural
		if s.Owner != "account" {
			description += " of a " + s.Owner
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", s.Name, s.Value, source, bound, description)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the limits: %w", err)
	}
	return nil
}

package product

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

func accountCommand(a administration) *cobra.Command {
	group := &cobra.Command{Use: "account", Short: "Make accounts, and set their limits"}
	commandline.MakeGroup(group)
	group.AddCommand(&cobra.Command{
		Use:   "create NAME",
		Short: "Create an account and print its key, which allows everything, this once",
		Args:  oneAccountArg,
		RunE: a.createInstallationIfMissing(func(cmd *cobra.Command, args []string, d *database) error {
			account, key, err := d.accounts().Create(cmd.Context(), args[0])
			if err != nil {
				return publicError(err)
			}
			return printKey(cmd.OutOrStdout(), cmd.ErrOrStderr(), key, "key of account "+account.Name)
		}),
	}, listLimitsCommand(a), setLimitCommand(a))
	return group
}

func keyCommand(a administration) *cobra.Command {
	group := &cobra.Command{Use: "key", Short: "Make, list and revoke account keys"}
	commandline.MakeGroup(group)
	var f keyFlags
	create := &cobra.Command{
		Use:   "create ACCOUNT --scopes all|none|SCOPE,…",
		Short: "Create an account key and print it, this once",
		Long: `Create an account key and print it, this once. A key never changes; make another one for other permissions.

A scope is RESOURCE:read or RESOURCE:write (which holds read) over
` + resourceNames() + `.`,
		Example: `  ` + a.program.Invocation +
			` key create demo --scopes key-buckets:write,deployments:read --environments preview --expires 720h`,
		Args: oneAccountArg,
		PreRunE: func(*cobra.Command, []string) error { // checks flags before data is opened
			_, err := f.spec(time.Now())
			return err
		},
		RunE: a.requireInstallation(func(cmd *cobra.Command, args []string, d *database) error {
			spec, err := f.spec(time.Now())
			if err != nil {
				return err
			}
			key, text, err := d.accounts().CreateKey(cmd.Context(), args[0], spec)
			if err != nil {
				return publicError(fault.RenameField(err, "expiresOn", "expires"))
			}
			return printKey(cmd.OutOrStdout(), cmd.ErrOrStderr(), text, "key "+key.ID+" of account "+key.AccountName)
		}),
	}
	create.Flags().StringVar(&f.scopes, "scopes", "", "what the key may do: all, none or a list of scopes")
	create.Flags().StringVar(&f.projects, "projects", auth.AllProjects,
		"the projects it reaches: * for all, or a list of names")
	create.Flags().StringVar(&f.environments, "environments", "all",
		"the environments it reaches: all, or a list of production, preview, development")
	create.Flags().StringVar(&f.expires, "expires", "",
		"when it ends: a time such as 2027-01-31T00:00:00Z, or a duration such as 720h; never without it")
	create.Flags().BoolVar(&f.confirm, "confirm-destructive", false,
		"have a person confirm, in their MCP client, what removes or replaces something")
	create.Flags().StringVar(&f.label, "label", "", "a name for people")
	group.AddCommand(create, listKeysCommand(a), revokeKeyCommand(a))
	return group
}

// oneAccountArg returns an error unless there is exactly one argument. Unlike
// cobra's error, its error says that the argument is an account's name.
func oneAccountArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one account: %s", cmd.UseLine())
	}
	return nil
}

func resourceNames() string {
	var out []string
	for _, r := range auth.Resources() {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

// keyFlags are the flags that describe a new key: its permissions, its expiry and its label.
type keyFlags struct {
	scopes, projects, environments, expires, label string
	confirm                                        bool
}

// spec parses the flags. Its error names every invalid flag.
func (f keyFlags) spec(now time.Time) (accounts.Spec, error) {
	var errs []error
	collect := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	out := accounts.Spec{Label: f.label}
	out.Permissions.Confirm = f.confirm
	var err error
	if f.scopes == "" {
		collect("scopes", errors.New("say what the key may do: all, none, or a list such as "+
			"key-buckets:read,deployments:write"))
	} else {
		out.Permissions.Scopes, err = auth.ParseScopes(f.scopes)
		collect("scopes", err)
	}
	out.Permissions.Projects, err = deployments.ParseProjects(f.projects)
	collect("projects", err)
	out.Permissions.Environments, err = auth.ParseEnvironments(f.environments)
	collect("environments", err)
	out.ExpiresOn, err = parseExpiry(f.expires, now)
	collect("expires", err)
	return out, errors.Join(errs...)
}

// parseExpiry parses a time in RFC 3339, or a duration that begins now. It returns nil if text is "".
func parseExpiry(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return new(now.Add(d).UTC()), nil
	}
	expiry, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, errors.New("write a time such as 2027-01-31T00:00:00Z or a duration such as 720h")
	}
	return new(expiry.UTC()), nil
}

// printKey prints the key to out and a description to errOut, so that the output of a command can be piped.
func printKey(out, errOut io.Writer, key, description string) error {
	if _, err := fmt.Fprintln(out, key); err != nil {
		return fmt.Errorf("print the %s: %w", description, err)
	}
	_, _ = fmt.Fprintf(errOut, "This is the %s. It is shown only once: keep it.\n", description)
	return nil
}

// publicError returns a fault's public text as an error for the terminal. It returns internal faults and other errors
// unchanged.
func publicError(err error) error {
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind != fault.Internal {
		return errors.New(f.Public)
	}
	return err
}

// accounts returns the installation's accounts.
func (d *database) accounts() *accounts.Service {
	return accounts.Open(installation.Parts{
		Config: config.Config{Limits: d.limits}, Table: d.table, IDs: d.ids,
		Now: time.Now,
	})
}

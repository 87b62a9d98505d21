package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

func rotateCommand(a administration) *cobra.Command {
	var status bool
	c := &cobra.Command{
		Use:   "rotate-root-key",
		Short: "Replace the root key, while the product goes on, or tell how far that is",
		Long: `Replace the root key: the next one is made, all that is sealed or hashed under the old one is renewed, and the old one is taken away. No key, token or secret
changes for anybody, and no request is refused meanwhile. It takes a little more than 25 hours, of which almost all is waiting, goes on after any kind of stop, and
cannot be taken back. --status tells how far it is. In a data directory there are two key files until the end: copy both, or make a backup, which holds both.

The first start of the product after it, or the product that runs, does the work: this command only begins it.`,
		Args: cobra.NoArgs,
		RunE: a.requireInstallation(func(cmd *cobra.Command, _ []string, d *database) error {
			if d.key == nil {
				return errors.New("the table is elsewhere: rotate where its root key is, and see docs/aws.md for an " +
					"installation in AWS")
			}
			s := durable.Rotation(d.parts())
			do := func(ctx context.Context) (rotation.Status, error) { return s.Start(ctx, operator()) }
			if status {
				do = s.Status
			}
			rotationStatus, err := do(cmd.Context())
			if err != nil {
				return publicError(err)
			}
			printRotation(cmd.OutOrStdout(), rotationStatus)
			return nil
		}),
	}
	c.Flags().BoolVar(&status, "status", false, "tell how far a rotation is, and begin none")
	return c
}

// printRotation prints the progress of a rotation.
func printRotation(out io.Writer, s rotation.Status) {
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	switch {
	case s.Operation == "":
		printf("The root key is the first one. It was never rotated.")
	case s.EndedOn != nil:
		printf("The root key is number %d. The last rotation began on %s and ended on %s.", s.Number, formatTime(s.BeganOn),
			formatTime(s.EndedOn))
	default:
		printf("A rotation of the root key is under way since %s: root key %d writes, and %d is read too.",
			formatTime(s.BeganOn), s.Number, s.Other)
		printf("Stage: %s, which goes on at %s. %s", s.Stage, formatTime(s.Next), s.Message)
	}
	printHistory(printf, s.History)
}

// operator returns the user and the host of this process, for the history of the root key.
func operator() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// printHistory prints the history of the root key, the newest event first.
func printHistory(printf func(format string, args ...any), events []rootkey.Event) {
	for _, e := range events {
		switch e.Kind {
		case rootkey.KeyRotated:
			printf("%s  rotated to root key %d (%s, from %s) by %s: new one writes %s, old one taken away %s, ended %s; %d "+
				"records, %d objects, %d unreadable",
				formatTime(&e.BeganOn), e.Number, e.To, e.From, e.By, formatTime(e.SwitchedOn), formatTime(e.RetiredOn),
				formatTime(e.EndedOn), e.Renewed, e.Objects, e.Unreadable)
		case rootkey.KMSKeyAdded:
			printf("%s  the KMS key %s wraps root key %d beside %s, by %s", formatTime(&e.BeganOn), e.To, e.Number, e.From, e.By)
		default:
			printf("%s  the KMS key %s alone wraps root key %d, by %s", formatTime(&e.BeganOn), e.To, e.Number, e.By)
		}
	}
}

func formatTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func rewrapCommand(a administration) *cobra.Command {
	var from awsNames
	var to string
	var finish bool
	c := &cobra.Command{
		Use:   "rewrap-root-key --to KEY",
		Short: "Have another KMS key wrap the root key of an installation in AWS",
		Long: `Have another KMS key wrap the root key of an installation in AWS. The root key stays what it is, and nothing that it has sealed is touched. First both KMS keys unwrap it: deploy the
functions with the new one. Then --finish leaves the new one alone. Give the key by its id or ARN; it has to be of the installation's region. After a failure run the same command again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return errors.New("name the KMS key that shall wrap the root key, by --to")
			}
			s, err := a.program.settings(os.Getenv)
			if err != nil {
				return err
			}
			r, err := from.open(s)
			if err != nil {
				return err
			}
			sdk, err := cloud.SDK(s.getenv)
			if err != nil {
				return err
			}
			if err := errors.Join(rootkey.CheckRegion(from.kmsKey, sdk.Region),
				rootkey.CheckRegion(to, sdk.Region)); err != nil {
				return err
			}
			request := rootkey.Initiator{By: operator(), At: time.Now()}
			client, message := kms.NewFromConfig(sdk),
				"Both KMS keys unwrap the root key. Deploy with %s, and then finish with --finish.\n"
			if finish {
				message = "The KMS key %s alone unwraps the root key.\n"
				err = rootkey.KeepOnlyKMSKey(cmd.Context(), client, to, r.table, request)
			} else {
				err = rootkey.AddKMSKey(cmd.Context(), client, from.kmsKey, to, r.table, request)
			}
			if err != nil {
				return publicError(from.explain(err, sdk.Region))
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), message, to)
			return nil
		},
	}
	from.addFlags(c, "of")
	c.Flags().StringVar(&to, "to", "", "the KMS key that shall wrap the root key")
	c.Flags().BoolVar(&finish, "finish", false, "leave the new KMS key alone, when every function is deployed with it")
	return c
}

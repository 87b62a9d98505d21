package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/deploy"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/local/commandline"
)

// columns are those of a table, by the members of the entries of a list, or by members of members: certificateInfo.validTo.
type columns []string

// of is a list's table: the columns that a person asks for, not all that there are.
func (c columns) of(document []byte, empty string) func() (output.Grid, error) {
	return c.in(document, "data", empty)
}

// in is the table of a list that is a member of a document.
func (c columns) in(document []byte, name, empty string) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var list []json.RawMessage
		if of := member(document, name); len(of) == 0 {
			return output.Grid{Empty: empty}, nil
		} else if err := call.Read(of, &list); err != nil {
			return output.Grid{}, fmt.Errorf("read the list: %w", err)
		}
		g := output.Grid{Empty: empty}
		for _, name := range c {
			title := output.Title(name[strings.LastIndexByte(name, '.')+1:])
			if slices.Contains(g.Columns, title) {
				title = strings.ReplaceAll(output.Title(name), ".", " ") // CERTIFICATE STATUS beside STATUS
			}
			g.Columns = append(g.Columns, title)
		}
		for _, entry := range list {
			g.Rows = append(g.Rows, c.row(entry))
		}
		return g, nil
	}
}

// row is an entry's: texts as they are, nothing for null and for what is not there, and of what holds others the beginning.
func (c columns) row(entry json.RawMessage) []string {
	var row []string
	for _, name := range c {
		shown := cellOf
		switch name {
		case resourcesMember:
			shown = resourcesCell
		case policiesMember:
			shown = policiesCell
		}
		row = append(row, shown(member(entry, name)))
	}
	return row
}

// policiesMember has the policies of a route, in the order in which they run.
const policiesMember = "policies"

// policiesCell is the policies of a route by their names, whole and in their order, as in: api-key, ten-a-minute, mask (outbound).
func policiesCell(policies json.RawMessage) string {
	var all []struct{ Name, Direction string }
	if json.Unmarshal(policies, &all) != nil {
		return cellOf(policies)
	}
	var shown []string
	for _, p := range all {
		if p.Direction != "inbound" {
			p.Name += " (" + p.Direction + ")"
		}
		shown = append(shown, p.Name)
	}
	return strings.Join(shown, ", ")
}

// cellOf is the cell of a member, nothing for one that is not there.
func cellOf(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	text, _ := output.Cell(jsontext.Value(value)) // it was read already
	return text
}

// member is a member of an object, or by a name with points a member of a member, nil for one that is not there.
func member(of json.RawMessage, name string) json.RawMessage {
	for part := range strings.SplitSeq(name, ".") {
		var members map[string]json.RawMessage
		if json.Unmarshal(of, &members) != nil {
			return nil
		}
		of = members[part]
	}
	return of
}

func (a *App) deploymentCommand() *cobra.Command {
	group := &cobra.Command{Use: "deployment", Short: "List, follow, roll back and delete deployments", GroupID: groupProjects, Example: "  gatewright deployment list --project shop"}
	commandline.Group(group)
	group.AddCommand(
		a.deploymentListCommand(), a.deploymentStatusCommand(), a.deploymentRedeployCommand(), a.deploymentDeleteCommand(), a.deploymentRollbackCommand(),
		a.deploymentTable("history DEPLOYMENT", "List the builds that were served, and which of them can be returned to", "DeploymentsService_history",
			columns{"buildId", "createdOn", "sha", "state"}, "Nothing was served yet."),
		a.deploymentTable("routes DEPLOYMENT", "List the routes that are served, with their policies in their order", "DeploymentsService_routes",
			columns{"method", "path", "handler", policiesMember, "file"}, "It serves no routes."),
	)
	return group
}

// named asks an operation by its name.
func (s *session) named(ctx context.Context, operation string, arguments map[string]any) (*call.Answer, error) {
	api, err := s.api()
	if err != nil {
		return nil, err
	}
	return api.Named(ctx, operation, arguments)
}

func (a *App) deploymentListCommand() *cobra.Command {
	var of string
	c := a.asking(&cobra.Command{Use: "list --project PROJECT", Short: "List the deployments of a project, production first", Example: "  gatewright deployment list --project shop", Args: cobra.NoArgs},
		func(ctx context.Context, s *session, _ []string) error {
			api, err := s.api()
			if err != nil {
				return err
			}
			whole, err := api.List(ctx, "DeploymentsService_list", map[string]any{"projectName": of})
			if err != nil {
				return err
			}
			return s.out.Document(ctx, whole, columns{"name", "branchName", "environmentType", "state", "updatedOn", "url"}.of(whole, "There are none: `gatewright deploy` makes one."))
		})
	a.projectFlag(c, &of)
	return c
}

// projectFlag adds the flag for the project that a command needs.
func (a *App) projectFlag(c *cobra.Command, of *string) {
	c.Flags().StringVar(of, "project", "", "the project")
	_ = c.MarkFlagRequired("project")
	_ = c.RegisterFlagCompletionFunc("project", a.completed("projectName", byFlag))
}

// deploymentTable is a command that lists something of a deployment.
func (a *App) deploymentTable(use, short, operation string, shown columns, empty string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	c.Example = "  gatewright deployment " + c.Name() + " shop-main-1a2b3c4"
	return a.asking(c, func(ctx context.Context, s *session, args []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		whole, err := api.List(ctx, operation, map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		return s.out.Document(ctx, whole, shown.of(whole, empty))
	})
}

func (a *App) deploymentStatusCommand() *cobra.Command {
	var of string
	c := a.askingFor(buildTime, &cobra.Command{
		Use: "status STATUS_ID --project PROJECT", Short: "Follow a build to its end, and say how it ended",
		Long:    "Follow a build to its end, and say how it ended: the URL alone is on stdout, and a build that failed ends this with 6.",
		Example: "  gatewright deployment status 3b241101-e2bb-4255-8caf-4136c566a962 --project shop", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		return s.follow(ctx, of, args[0])
	})
	a.projectFlag(c, &of)
	return c
}

// follow follows a build to its end.
func (s *session) follow(ctx context.Context, projectName, statusID string) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	d := &deploy.Deployer{API: api, Poll: pollEvery, Told: s.told}
	result, err := d.Follow(ctx, projectName, statusID)
	if err != nil {
		return err
	}
	return s.ended(ctx, api, result, built{})
}

func (a *App) deploymentRedeployCommand() *cobra.Command {
	return a.askingFor(buildTime, &cobra.Command{
		Use: "redeploy DEPLOYMENT", Short: "Build the sources of a deployment again, with its variables as they are now",
		Example: "  gatewright deployment redeploy shop-main-1a2b3c4", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		read, err := s.named(ctx, "DeploymentsService_read", map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		var of struct{ ProjectName string }
		if err := call.Read(read.Body, &of); err != nil {
			return fmt.Errorf("read the deployment: %w", err)
		}
		answer, err := s.named(ctx, "DeployService_redeploy", map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		var begun struct{ DeploymentID string }
		if err := json.Unmarshal(answer.Body, &begun); err != nil || uuid.Validate(begun.DeploymentID) != nil || !projectName().MatchString(of.ProjectName) {
			return errors.New("the API does not say how to follow the build")
		}
		return s.follow(ctx, of.ProjectName, begun.DeploymentID)
	})
}

func (a *App) deploymentRollbackCommand() *cobra.Command {
	var to string
	c := a.asking(&cobra.Command{
		Use: "rollback DEPLOYMENT", Short: "Serve the build again that was served before",
		Long:    "Serve the build again that was served before, or with --to any that the history calls previous. There is no build: gateways serve it within a second or two.",
		Example: "  gatewright deployment rollback shop-main-1a2b3c4", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		arguments := map[string]any{"deploymentName": args[0]}
		if to != "" {
			arguments["to"] = to
		}
		answer, err := s.named(ctx, "DeploymentsService_rollback", arguments)
		if err != nil {
			return err
		}
		return s.out.Document(ctx, answer.Body, nil)
	})
	c.Flags().StringVar(&to, "to", "", "the id of the build to return to")
	return c
}

func (a *App) deploymentDeleteCommand() *cobra.Command {
	var yes bool
	c := a.asking(&cobra.Command{
		Use: "delete DEPLOYMENT", Short: "Delete a deployment, with its builds: it is served no more",
		Example: "  gatewright deployment delete shop-old-1a2b3c4 --yes", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		read, err := s.named(ctx, "DeploymentsService_read", map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		var of struct{ Name, URL string }
		if err := call.Read(read.Body, &of); err != nil {
			return fmt.Errorf("read the deployment: %w", err)
		}
		if !yes {
			if err := a.person().Confirm(ctx, fmt.Sprintf("%s is served no more at %s, and its builds go", of.Name, of.URL), of.Name, "--yes"); err != nil {
				return exit.With(exit.Usage, err)
			}
		}
		if _, err := s.named(ctx, "DeploymentsService_delete", map[string]any{"deploymentName": args[0]}); err != nil {
			return err
		}
		s.out.Say("the deployment %s is deleted", of.Name)
		return nil
	})
	c.Flags().BoolVar(&yes, "yes", false, "delete it without being asked")
	return c
}

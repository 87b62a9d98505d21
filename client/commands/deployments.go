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
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// columns are the columns of a table: the names of members of the list's entries, or paths to nested members, such as
// certificateInfo.validTo.
type columns []string

// dataTable calls memberTable for the document's member "data".
func (c columns) dataTable(document []byte, empty string) func() (output.Grid, error) {
	return c.memberTable(document, "data", empty)
}

// memberTable returns a function that returns a table of a list. name is the document's member with the list, or its
// path. empty is the message for an empty list.
func (c columns) memberTable(document []byte, name, empty string) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var list []json.RawMessage
		if value := memberValue(document, name); len(value) == 0 {
			return output.Grid{Empty: empty}, nil
		} else if err := call.Decode(value, &list); err != nil {
			return output.Grid{}, fmt.Errorf("read the list: %w", err)
		}
		g := output.Grid{Empty: empty}
		for _, name := range c {
			title := output.ColumnTitle(name[strings.LastIndexByte(name, '.')+1:])
			if slices.Contains(g.Columns, title) {
				title = strings.ReplaceAll(output.ColumnTitle(name), ".", " ") // CERTIFICATE STATUS, which differs from STATUS
			}
			g.Columns = append(g.Columns, title)
		}
		for _, entry := range list {
			g.Rows = append(g.Rows, c.row(entry))
		}
		return g, nil
	}
}

// row returns the cells of a list's entry. Cells of null and missing members are empty, and long nested values are
// truncated.
func (c columns) row(entry json.RawMessage) []string {
	var row []string
	for _, name := range c {
		cell := cellText
		switch name {
		case resourcesMember:
			cell = resourcesCell
		case policiesMember:
			cell = policiesCell
		}
		row = append(row, cell(memberValue(entry, name)))
	}
	return row
}

// policiesMember is the JSON member of a route that contains its policies, in the order of execution.
const policiesMember = "policies"

// policiesCell returns the names of the policies of a route, in order, as in: api-key, ten-a-minute, mask (outbound).
func policiesCell(policies json.RawMessage) string {
	var all []struct{ Name, Direction string }
	if json.Unmarshal(policies, &all) != nil {
		return cellText(policies)
	}
	var names []string
	for _, p := range all {
		if p.Direction != "inbound" {
			p.Name += " (" + p.Direction + ")"
		}
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// cellText returns the cell of a member, "" for a missing member.
func cellText(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	text, _ := output.Cell(jsontext.Value(value)) // the value was decoded before, so this cannot fail
	return text
}

// memberValue returns the member with this name of a JSON object, or nil if it is missing. A name with dots is a path
// of members.
func memberValue(value json.RawMessage, name string) json.RawMessage {
	for part := range strings.SplitSeq(name, ".") {
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return nil
		}
		value = members[part]
	}
	return value
}

func (a *App) deploymentCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "deployment", Short: "List, follow, roll back and delete deployments",
		GroupID: groupProjects, Example: "  gatewright deployment list --project shop",
	}
	commandline.MakeGroup(group)
	group.AddCommand(
		a.deploymentListCommand(), a.deploymentStatusCommand(), a.deploymentRedeployCommand(), a.deploymentDeleteCommand(),
		a.deploymentRollbackCommand(),
		a.deploymentTableCommand("history DEPLOYMENT",
			"List the builds that were served, and which of them can be returned to", "DeploymentsService_history",
			columns{"buildId", "createdOn", "sha", "state"}, "Nothing was served yet."),
		a.deploymentTableCommand("routes DEPLOYMENT", "List the routes that are served, with their policies in their order",
			"DeploymentsService_routes",
			columns{"method", "path", "handler", policiesMember, "file"}, "It serves no routes."),
	)
	return group
}

// call calls an operation by its name.
func (s *session) call(ctx context.Context, operation string, arguments map[string]any) (*call.Response, error) {
	api, err := s.api()
	if err != nil {
		return nil, err
	}
	return api.Call(ctx, operation, arguments)
}

func (a *App) deploymentListCommand() *cobra.Command {
	var project string
	c := a.remoteCommand(&cobra.Command{Use: "list --project PROJECT", Short: "List the deployments of a project, " +
		"production first", Example: "  gatewright deployment list --project shop", Args: cobra.NoArgs},
		func(ctx context.Context, s *session, _ []string) error {
			api, err := s.api()
			if err != nil {
				return err
			}
			list, err := api.List(ctx, "DeploymentsService_list", map[string]any{"projectName": project})
			if err != nil {
				return err
			}
			return s.out.Document(ctx, list, columns{
				"name", "branchName", "environmentType", "state", "updatedOn",
				"url",
			}.dataTable(list, "There are none: `gatewright deploy` makes one."))
		})
	a.addProjectFlag(c, &project)
	return c
}

// addProjectFlag adds the required flag for the project.
func (a *App) addProjectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "", "the project")
	_ = c.MarkFlagRequired("project")
	_ = c.RegisterFlagCompletionFunc("project", a.completeNames("projectName", argumentFlagValue))
}

// deploymentTableCommand returns a command that lists objects of a deployment. operation is the list operation.
func (a *App) deploymentTableCommand(use, short, operation string, cols columns, empty string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	c.Example = "  gatewright deployment " + c.Name() + " shop-main-1a2b3c4"
	return a.remoteCommand(c, func(ctx context.Context, s *session, args []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		list, err := api.List(ctx, operation, map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		return s.out.Document(ctx, list, cols.dataTable(list, empty))
	})
}

func (a *App) deploymentStatusCommand() *cobra.Command {
	var project string
	c := a.remoteCommandWithTimeout(buildTimeout, &cobra.Command{
		Use: "status STATUS_ID --project PROJECT", Short: "Follow a build to its end, and say how it ended",
		Long: "Follow a build to its end, and say how it ended: the URL alone is on stdout, and a build that failed " +
			"ends this with 6.",
		Example: "  gatewright deployment status 3b241101-e2bb-4255-8caf-4136c566a962 --project shop",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		return s.followBuild(ctx, project, args[0])
	})
	a.addProjectFlag(c, &project)
	return c
}

// followBuild waits until a build ends, and reports its result.
func (s *session) followBuild(ctx context.Context, projectName, statusID string) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	d := &deploy.Deployer{API: api, PollInterval: pollInterval, OnState: s.showState}
	result, err := d.Follow(ctx, projectName, statusID)
	if err != nil {
		return err
	}
	return s.reportBuild(ctx, api, result, buildSources{})
}

func (a *App) deploymentRedeployCommand() *cobra.Command {
	return a.remoteCommandWithTimeout(buildTimeout, &cobra.Command{
		Use: "redeploy DEPLOYMENT", Short: "Build the sources of a deployment again, with its variables as they are now",
		Example: "  gatewright deployment redeploy shop-main-1a2b3c4", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		deploymentResp, err := s.call(ctx, "DeploymentsService_read", map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		var deployment struct{ ProjectName string }
		if err := call.Decode(deploymentResp.Body, &deployment); err != nil {
			return fmt.Errorf("read the deployment: %w", err)
		}
		resp, err := s.call(ctx, "DeployService_redeploy", map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		var build struct{ DeploymentID string }
		if err := json.Unmarshal(resp.Body, &build); err != nil || uuid.Validate(build.DeploymentID) != nil ||
			!projectNamePattern().MatchString(deployment.ProjectName) {
			return errors.New("the API does not say how to follow the build")
		}
		return s.followBuild(ctx, deployment.ProjectName, build.DeploymentID)
	})
}

func (a *App) deploymentRollbackCommand() *cobra.Command {
	var buildID string
	c := a.remoteCommand(&cobra.Command{
		Use: "rollback DEPLOYMENT", Short: "Serve the build again that was served before",
		Long: "Serve the build again that was served before, or with --to any that the history calls previous. There is " +
			"no build: gateways serve it within a second or two.",
		Example: "  gatewright deployment rollback shop-main-1a2b3c4", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		arguments := map[string]any{"deploymentName": args[0]}
		if buildID != "" {
			arguments["to"] = buildID
		}
		resp, err := s.call(ctx, "DeploymentsService_rollback", arguments)
		if err != nil {
			return err
		}
		return s.out.Document(ctx, resp.Body, nil)
	})
	c.Flags().StringVar(&buildID, "to", "", "the id of the build to return to")
	return c
}

func (a *App) deploymentDeleteCommand() *cobra.Command {
	var yes bool
	c := a.remoteCommand(&cobra.Command{
		Use: "delete DEPLOYMENT", Short: "Delete a deployment, with its builds: it is served no more",
		Example: "  gatewright deployment delete shop-old-1a2b3c4 --yes", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		resp, err := s.call(ctx, "DeploymentsService_read", map[string]any{"deploymentName": args[0]})
		if err != nil {
			return err
		}
		var deployment struct{ Name, URL string }
		if err := call.Decode(resp.Body, &deployment); err != nil {
			return fmt.Errorf("read the deployment: %w", err)
		}
		if !yes {
			if err := a.prompter().Confirm(ctx, fmt.Sprintf("%s is served no more at %s, and its builds go", deployment.Name,
				deployment.URL), deployment.Name, "--yes"); err != nil {
				return exit.WithCode(exit.Usage, err)
			}
		}
		if _, err := s.call(ctx, "DeploymentsService_delete", map[string]any{"deploymentName": args[0]}); err != nil {
			return err
		}
		s.out.Infof("the deployment %s is deleted", deployment.Name)
		return nil
	})
	c.Flags().BoolVar(&yes, "yes", false, "delete it without being asked")
	return c
}

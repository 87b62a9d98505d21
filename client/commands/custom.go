package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
)

// addResources adds the commands of all resources to root. It adds subcommands only to resources that include accepts.
func (a *App) addResources(root *cobra.Command, include func(name string) bool) {
	for _, newResource := range resources() {
		r := newResource()
		if !include(r.name) {
			r.verbs, r.children, r.customCommands = nil, nil, nil
		}
		c := a.resourceCommand(root.Name(), r)
		c.GroupID = groupResources
		root.AddCommand(c)
	}
}

// variableSetCommand returns the command that creates a variable or changes its value.
func (a *App) variableSetCommand() *cobra.Command {
	v := verb{
		name: "set", short: "Create a variable, or give it another value, which comes from stdin or a file",
		operation: "VariablesService_create",
		long: "The value is no word of the command line, where all users of the machine see it. The end of its last line " +
			"is no part of it. Whether a\n" +
			"variable is a secret stays as it was made. It holds from the next deploy on, or from `gatewright " +
			"deployment redeploy`.",
		params: []parameter{
			positional("name", "NAME", "UPSTREAM_URL"), projectParam, branchParam.withDefault(defaultBranch),
			{argument: "value", flag: "file", kind: asFile, help: "the value"},
			{argument: "isSecret", flag: "secret", kind: asBool, help: "never show the value again; of a new variable"},
		},
	}
	c := v.newCommand("gatewright variable")
	c.Example += " < value.txt\n  gatewright variable set API_TOKEN --project shop --secret --file token"
	a.remoteCommand(c, func(ctx context.Context, s *session, args []string) error {
		reader := &flagReader{in: a.stdin(ctx)}
		arguments, err := v.arguments(c, args, reader, a.now)
		if err != nil {
			return err
		}
		if arguments["value"] == nil {
			if arguments["value"], err = a.readValue(ctx, "The value of "+args[0], reader); err != nil {
				return err
			}
		}
		if arguments["isSecret"] == nil {
			arguments["isSecret"] = false
		}
		document, err := s.setVariable(ctx, arguments, c.Flags().Changed("secret"))
		if err != nil {
			return err
		}
		if err := s.out.Document(ctx, document, nil); err != nil {
			return err
		}
		s.out.Infof("it holds from the next deploy on; `gatewright deployment redeploy DEPLOYMENT` builds what is " +
			"served again")
		return nil
	})
	a.addFlags(v, c)
	return c
}

// readValue prompts for a secret at the terminal. Without a terminal, or in a CI job, it reads the secret from stdin.
// It refuses an empty stdin, because a script has then probably forgotten the value.
func (a *App) readValue(ctx context.Context, question string, reader *flagReader) (string, error) {
	if a.prompter().Interactive() {
		return a.prompter().AskSecret(ctx, question, "--file FILE")
	}
	content, err := reader.readFile("file", "-")
	if err == nil && len(content) == 0 {
		err = exit.WithCode(exit.Usage, errors.New("stdin has no value: pipe it in, or name its file with --file"))
	}
	return trimNewline(content), err
}

// setVariable creates a variable, or changes an existing one. hasSecretFlag says that the command line has --secret.
// setVariable never changes whether an existing variable is a secret, so that a secret value never becomes readable. If
// --secret demands such a change, setVariable returns an error.
func (s *session) setVariable(ctx context.Context, arguments map[string]any, hasSecretFlag bool) ([]byte, error) {
	created, err := s.call(ctx, "VariablesService_create", arguments)
	if err == nil {
		return created.Body, nil
	}
	if exit.CodeOf(err) != exit.Conflict {
		return nil, err
	}
	target := map[string]any{
		"projectName": arguments["projectName"], "branchName": arguments["branchName"],
		"variableName": arguments["name"],
	}
	current, readErr := s.call(ctx, "VariablesService_read", target)
	if readErr != nil {
		return nil, err // the conflict has another reason than the name
	}
	var existing struct{ IsSecret bool }
	if err := call.Decode(current.Body, &existing); err != nil {
		return nil, fmt.Errorf("read the variable: %w", err)
	}
	if hasSecretFlag && arguments["isSecret"] != existing.IsSecret {
		return nil, exit.WithCode(exit.Conflict, errors.New("the variable is there, and whether it is a secret cannot be "+
			"changed: delete it first, or leave --secret out"))
	}
	target["value"] = arguments["value"]
	updated, err := s.call(ctx, "VariablesService_update", target)
	if err != nil {
		return nil, err
	}
	return updated.Body, nil
}

// dnsRecord is a DNS record that the user has to create.
type dnsRecord struct{ Name, Type, Value string }

// recordsTable returns a function that returns a table of the DNS records that a new custom domain needs.
func recordsTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var domain struct {
			Hostname, CNAME       string
			OwnershipVerification *dnsRecord
		}
		if err := call.Decode(document, &domain); err != nil {
			return output.Grid{}, fmt.Errorf("read the custom domain: %w", err)
		}
		g := output.Grid{Columns: []string{"TYPE", "NAME", "VALUE"}, Empty: "It needs no records of the DNS."}
		if r := domain.OwnershipVerification; r != nil {
			g.Rows = append(g.Rows, []string{r.Type, r.Name, r.Value})
		}
		if domain.CNAME != "" {
			g.Rows = append(g.Rows, []string{"CNAME", domain.Hostname, domain.CNAME})
		}
		return g, nil
	}
}

// domainTable returns a function that returns a table of a custom domain and its DNS records.
func domainTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var domain struct {
			Hostname, Status, ProjectName string
			Certificate                   *struct{ Status, Source, ValidTo, Message string }
			OwnershipVerification         *dnsRecord
			Deployments                   []struct{ DeploymentName, CNAME string }
		}
		if err := call.Decode(document, &domain); err != nil {
			return output.Grid{}, fmt.Errorf("read the custom domain: %w", err)
		}
		g := output.Grid{Rows: [][]string{
			{"hostname", domain.Hostname},
			{"status", domain.Status},
			{"project", domain.ProjectName},
		}}
		if c := domain.Certificate; c != nil {
			g.Rows = append(g.Rows, []string{"certificate", strings.Join(strings.Fields(c.Status+" "+c.Source+" "+c.ValidTo),
				", ")})
			if c.Message != "" {
				g.Rows = append(g.Rows, []string{"", c.Message})
			}
		}
		for _, d := range domain.Deployments {
			g.Rows = append(g.Rows, []string{"deployment", d.DeploymentName},
				[]string{"set CNAME", domain.Hostname + " " + d.CNAME})
		}
		if r := domain.OwnershipVerification; r != nil {
			g.Rows = append(g.Rows, []string{"set " + r.Type, r.Name + " " + r.Value})
		}
		return g, nil
	}
}

// servicesTable returns a function that returns a table of the services behind a tunnel. The table has a row for each
// project that may call a service, and one row for a service that no project may call.
func servicesTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var response struct {
			Services []struct {
				Name, Endpoint string
				Configurations []struct {
					Project      string
					AccessibleBy []string
				}
			}
		}
		if err := call.Decode(document, &response); err != nil {
			return output.Grid{}, fmt.Errorf("read the services: %w", err)
		}
		g := output.Grid{
			Columns: []string{"NAME", "ENDPOINT", "PROJECT", "ACCESSIBLE BY"},
			Empty:   "There are none: `gatewright tunnel services put` says which there are.",
		}
		for _, s := range response.Services {
			if len(s.Configurations) == 0 {
				g.Rows = append(g.Rows, []string{s.Name, s.Endpoint, "", "nobody"})
			}
			for _, c := range s.Configurations {
				g.Rows = append(g.Rows, []string{s.Name, s.Endpoint, c.Project, strings.Join(c.AccessibleBy, ", ")})
			}
		}
		return g, nil
	}
}

// A new DNS record is visible everywhere after some minutes. dnsTimeout is the default time limit of the wait for the
// record. dnsPollInterval is the interval between two lookups.
const (
	dnsTimeout      = 15 * time.Minute
	dnsPollInterval = 5 * time.Second
)

func (a *App) domainVerifyCommand() *cobra.Command {
	v := verb{
		name: "verify", short: "Look whether the TXT record of a custom domain is in the DNS",
		operation: "CustomDomainsService_verify", params: []parameter{hostnameParam}, table: domainTable,
		long: "Without --wait a record that is missing ends this with 5, and with --wait it is looked for again and again, " +
			"for as long as --timeout.",
	}
	var wait bool
	c := v.newCommand("gatewright domain")
	c.Example += " --wait --timeout 1h"
	a.remoteCommandWithTimeout(dnsTimeout, c, func(ctx context.Context, s *session, args []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		for shown := ""; ; {
			resp, err := api.Call(ctx, v.operation, map[string]any{"hostname": args[0]})
			if err == nil {
				return s.writeDocument(ctx, v, resp.Body)
			}
			if !wait || exit.CodeOf(err) != exit.Conflict {
				return err
			}
			if err.Error() != shown {
				shown = err.Error()
				s.out.Infof("%s", shown)
			}
			if err := api.Sleep(ctx, dnsPollInterval); err != nil {
				return fmt.Errorf("wait for the record, which is looked for by itself for a week: %w", err)
			}
		}
	})
	a.addFlags(v, c)
	c.Flags().BoolVar(&wait, "wait", false, "wait until it is there")
	return c
}

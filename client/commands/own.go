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

// addNouns adds the resources, those that are wanted with their commands.
func (a *App) addNouns(root *cobra.Command, wanted func(name string) bool) {
	for _, made := range nouns() {
		n := made()
		if !wanted(n.name) {
			n.verbs, n.below, n.own = nil, nil, nil
		}
		c := a.nounCommand(root.Name(), n)
		c.GroupID = groupResources
		root.AddCommand(c)
	}
}

// variableSetCommand creates a variable, or gives it another value.
func (a *App) variableSetCommand() *cobra.Command {
	v := verb{
		name: "set", short: "Create a variable, or give it another value, which comes from stdin or a file", operation: "VariablesService_create",
		long: "The value is no word of the command line, where all users of the machine see it. The end of its last line is no part of it. Whether a\n" +
			"variable is a secret stays as it was made. It holds from the next deploy on, or from `gatewright deployment redeploy`.",
		takes: []given{
			word("name", "NAME", "UPSTREAM_URL"), ofProject, onBranch,
			{argument: "value", flag: "file", kind: asFile, text: "the value"},
			{argument: "isSecret", flag: "secret", kind: asBool, text: "never show the value again; of a new variable"},
		},
	}
	c := v.shape("gatewright variable")
	c.Example += " < value.txt\n  gatewright variable set API_TOKEN --project shop --secret --file token"
	a.asking(c, func(ctx context.Context, s *session, words []string) error {
		stdin := &onceRead{in: a.stdin(ctx)}
		arguments, err := v.arguments(c, words, stdin, a.now)
		if err != nil {
			return err
		}
		if arguments["value"] == nil {
			if arguments["value"], err = a.valueOf(ctx, "The value of "+words[0], stdin); err != nil {
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
		s.out.Say("it holds from the next deploy on; `gatewright deployment redeploy DEPLOYMENT` builds what is served again")
		return nil
	})
	a.flags(v, c)
	return c
}

// valueOf is a secret from whoever is at the terminal, or from stdin where nobody is. Nothing at all is no value: a script whose
// stdin is empty has forgotten it.
func (a *App) valueOf(ctx context.Context, question string, stdin *onceRead) (string, error) {
	if a.person().There() {
		return a.person().Secret(ctx, question, "--file FILE")
	}
	content, err := stdin.file("file", "-")
	if err == nil && len(content) == 0 {
		err = exit.With(exit.Usage, errors.New("stdin has no value: pipe it in, or name its file with --file"))
	}
	return oneText(content), err
}

// setVariable makes the variable, or changes the one that is there. One that is a secret stays one, so that a value which is to be
// one never becomes what can be read.
func (s *session) setVariable(ctx context.Context, arguments map[string]any, saysSecret bool) ([]byte, error) {
	made, err := s.named(ctx, "VariablesService_create", arguments)
	if err == nil {
		return made.Body, nil
	}
	if exit.Of(err) != exit.Conflict {
		return nil, err
	}
	of := map[string]any{"projectName": arguments["projectName"], "branchName": arguments["branchName"], "variableName": arguments["name"]}
	read, missing := s.named(ctx, "VariablesService_read", of)
	if missing != nil {
		return nil, err // it was no conflict of names
	}
	var there struct{ IsSecret bool }
	if err := call.Read(read.Body, &there); err != nil {
		return nil, fmt.Errorf("read the variable: %w", err)
	}
	if saysSecret && arguments["isSecret"] != there.IsSecret {
		return nil, exit.With(exit.Conflict, errors.New("the variable is there, and whether it is a secret cannot be changed: delete it first, or leave --secret out"))
	}
	of["value"] = arguments["value"]
	changed, err := s.named(ctx, "VariablesService_update", of)
	if err != nil {
		return nil, err
	}
	return changed.Body, nil
}

// dnsRecord is one to set.
type dnsRecord struct{ Name, Type, Value string }

// recordsTable is a table of the DNS records that a new custom domain needs.
func recordsTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var of struct {
			Hostname, CNAME       string
			OwnershipVerification *dnsRecord
		}
		if err := call.Read(document, &of); err != nil {
			return output.Grid{}, fmt.Errorf("read the custom domain: %w", err)
		}
		g := output.Grid{Columns: []string{"TYPE", "NAME", "VALUE"}, Empty: "It needs no records of the DNS."}
		if r := of.OwnershipVerification; r != nil {
			g.Rows = append(g.Rows, []string{r.Type, r.Name, r.Value})
		}
		if of.CNAME != "" {
			g.Rows = append(g.Rows, []string{"CNAME", of.Hostname, of.CNAME})
		}
		return g, nil
	}
}

// domainTable is a custom domain with its records.
func domainTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var of struct {
			Hostname, Status, ProjectName string
			Certificate                   *struct{ Status, Source, ValidTo, Message string }
			OwnershipVerification         *dnsRecord
			Deployments                   []struct{ DeploymentName, CNAME string }
		}
		if err := call.Read(document, &of); err != nil {
			return output.Grid{}, fmt.Errorf("read the custom domain: %w", err)
		}
		g := output.Grid{Rows: [][]string{{"hostname", of.Hostname}, {"status", of.Status}, {"project", of.ProjectName}}}
		if c := of.Certificate; c != nil {
			g.Rows = append(g.Rows, []string{"certificate", strings.Join(strings.Fields(c.Status+" "+c.Source+" "+c.ValidTo), ", ")})
			if c.Message != "" {
				g.Rows = append(g.Rows, []string{"", c.Message})
			}
		}
		for _, d := range of.Deployments {
			g.Rows = append(g.Rows, []string{"deployment", d.DeploymentName}, []string{"set CNAME", of.Hostname + " " + d.CNAME})
		}
		if r := of.OwnershipVerification; r != nil {
			g.Rows = append(g.Rows, []string{"set " + r.Type, r.Name + " " + r.Value})
		}
		return g, nil
	}
}

// servicesTable is a table of the services behind a tunnel: a row for each project that may call one.
func servicesTable(document []byte) func() (output.Grid, error) {
	return func() (output.Grid, error) {
		var of struct {
			Services []struct {
				Name, Endpoint string
				Configurations []struct {
					Project      string
					AccessibleBy []string
				}
			}
		}
		if err := call.Read(document, &of); err != nil {
			return output.Grid{}, fmt.Errorf("read the services: %w", err)
		}
		g := output.Grid{Columns: []string{"NAME", "ENDPOINT", "PROJECT", "ACCESSIBLE BY"}, Empty: "There are none: `gatewright tunnel services put` says which there are."}
		for _, s := range of.Services {
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

// The DNS takes minutes to say everywhere what is set: so long is waited where nobody says otherwise, and asked so often.
const (
	dnsTime  = 15 * time.Minute
	dnsEvery = 5 * time.Second
)

func (a *App) domainVerifyCommand() *cobra.Command {
	v := verb{
		name: "verify", short: "Look whether the TXT record of a custom domain is in the DNS", operation: "CustomDomainsService_verify", takes: []given{hostnameWord}, table: domainTable,
		long: "Without --wait a record that is missing ends this with 5, and with --wait it is looked for again and again, for as long as --timeout.",
	}
	var wait bool
	c := v.shape("gatewright domain")
	c.Example += " --wait --timeout 1h"
	a.askingFor(dnsTime, c, func(ctx context.Context, s *session, words []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		for told := ""; ; {
			answer, err := api.Named(ctx, v.operation, map[string]any{"hostname": words[0]})
			if err == nil {
				return s.document(ctx, v, answer.Body)
			}
			if !wait || exit.Of(err) != exit.Conflict {
				return err
			}
			if err.Error() != told {
				told = err.Error()
				s.out.Say("%s", told)
			}
			if err := api.Sleep(ctx, dnsEvery); err != nil {
				return fmt.Errorf("wait for the record, which is looked for by itself for a week: %w", err)
			}
		}
	})
	a.flags(v, c)
	c.Flags().BoolVar(&wait, "wait", false, "wait until it is there")
	return c
}

package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/report"
)

// groupFiles is the ID of the group "Resources in files" in the help.
const groupFiles = "files"

// These are the default values of --timeout: compareTimeout for export, plan and drift, and applyTimeout for apply.
// They allow for 20,000 objects, which need one request each.
const (
	compareTimeout = 30 * time.Minute
	applyTimeout   = 6 * time.Hour
)

// compareFlags has the flags of a comparison.
type compareFlags struct {
	prune, setSecrets bool
	reports           reportFiles
}

func (c *compareFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.setSecrets, "set-secrets", false,
		"set the secrets of objects that are there anew: what they are now, nobody can compare")
	cmd.Flags().StringVar(&c.reports.sarif, "sarif", "", "a `FILE` that what is wrong is written to as SARIF 2.1.0")
	cmd.Flags().StringVar(&c.reports.codeQuality, "code-quality", "",
		"a `FILE` that what is wrong is written to as GitLab's code quality report")
}

func (c *compareFlags) registerPrune(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.prune, "prune", false, "delete what a list that is said to be complete does not name")
}

func (a *App) filesCommands() []*cobra.Command {
	return []*cobra.Command{a.exportCommand(), a.planCommand(), a.applyCommand(), a.driftCommand()}
}

// lowMemoryCommand returns a command that collects garbage when the heap has grown by a third. With Go's default,
// garbage is collected when the heap has doubled: the garbage of 20,000 objects would need more memory than the objects
// (internal/bench).
func (a *App) lowMemoryCommand(
	timeout time.Duration, c *cobra.Command, run func(ctx context.Context, s *session, args []string) error,
) *cobra.Command {
	const percent = 33
	return a.remoteCommandWithTimeout(timeout, c, func(ctx context.Context, s *session, args []string) error {
		defer debug.SetGCPercent(debug.SetGCPercent(percent))
		return run(ctx, s, args)
	})
}

func (a *App) exportCommand() *cobra.Command {
	var dir string
	var force bool
	c := a.lowMemoryCommand(compareTimeout, &cobra.Command{
		Use: "export [KIND…]", Short: "Write what the account has as files that plan and apply take", GroupID: groupFiles,
		Long: "Write what the account has as files that plan and apply take: the same bytes for the same objects, without " +
			"times and ids.\n\n" +
			"Secrets, which the API does not tell, are references to variables of the environment or to files; stderr " +
			"lists them.\n" +
			"Kinds are " + strings.Join(files.TopLevelLists(), ", ") + "; all without one.",
		Example:   "  gatewright export > account.yaml\n  gatewright export keyBuckets --out account",
		ValidArgs: files.TopLevelLists(),
	}, func(ctx context.Context, s *session, kinds []string) error {
		for _, kind := range kinds {
			if !slices.Contains(files.TopLevelLists(), kind) {
				return exit.WithCode(exit.Usage, fmt.Errorf("%s is no kind: there are %s", kind,
					strings.Join(files.TopLevelLists(), ", ")))
			}
		}
		return s.export(ctx, kinds, dir, force)
	})
	c.Flags().StringVar(&dir, outFlag, "", "write a file for each kind into a `FOLDER`, all or nothing")
	c.Flags().BoolVar(&force, "force", false, "write over the files of an export before")
	return c
}

func (s *session) export(ctx context.Context, kinds []string, dir string, force bool) error {
	if dir != "" {
		if err := files.CheckFolder(dir, force); err != nil {
			return err
		}
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	exported, err := files.Export(ctx, api, kinds)
	if err != nil {
		return err
	}
	reportOmissions := func() {
		for _, item := range exported.Secrets {
			s.out.Infof("to be given: %s", item)
		}
		for _, item := range exported.Skipped {
			s.out.Infof("left out: %s", item)
		}
	}
	if dir != "" {
		written, err := exported.WriteFolder(dir, force)
		if err != nil {
			return err
		}
		reportOmissions()
		document, err := json.Marshal(map[string]any{
			"folder": dir, "files": written,
			"toBeGiven": append([]string{}, exported.Secrets...),
		})
		if err != nil {
			return fmt.Errorf("write the document: %w", err)
		}
		return s.out.Document(ctx, document, func() (output.Grid, error) {
			g := output.Grid{Empty: "There is nothing to export."}
			for _, name := range written {
				g.Rows = append(g.Rows, []string{filepath.Join(dir, name)})
			}
			return g, nil
		})
	}
	reportOmissions()
	if s.out.Format() == output.JSON {
		return s.out.Document(ctx, exported.JSON(), nil)
	}
	text, err := exported.YAML()
	if err != nil {
		return err
	}
	return s.out.Text(string(text))
}

func (a *App) planCommand() *cobra.Command {
	var flags compareFlags
	var out string
	var exitOnChanges bool
	c := a.lowMemoryCommand(compareTimeout, &cobra.Command{
		Use: "plan FILES", Short: "Say what has to change for the account to be as files have it", GroupID: groupFiles,
		Long: "Say what has to change for the account to be as files have it: a file, or all of a folder that are called " +
			".yaml or .yml.\n\n" +
			"Nothing is changed. Each field is told before and after, of a secret only that it is set. What is not in the " +
			"files stays as it is; --prune\n" +
			"deletes what a list does not name that is said to be complete. --out keeps the plan for `gatewright apply`, " +
			"which does exactly that.",
		Example: "  gatewright plan account\n  gatewright plan account --prune --out release.plan", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		p, err := s.compare(ctx, api, args[0], flags)
		if err != nil {
			return err
		}
		if out != "" {
			if err := p.Write(out); err != nil {
				return err
			}
		}
		if err := s.writePlan(ctx, p); err != nil {
			return err
		}
		if out != "" {
			s.out.Infof("the plan is in %s: `gatewright apply %s` does it", out, out)
		}
		if exitOnChanges {
			return pendingError(p)
		}
		return nil
	})
	flags.register(c)
	flags.registerPrune(c)
	c.Flags().StringVar(&out, outFlag, "", "write the plan into a `FILE` that its owner alone may read")
	c.Flags().BoolVar(&exitOnChanges, "exit-code", false, "end with 8 where there are changes")
	return c
}

func (a *App) driftCommand() *cobra.Command {
	flags := compareFlags{prune: true}
	c := a.lowMemoryCommand(compareTimeout, &cobra.Command{
		Use: "drift FILES", Short: "End with 8 where the account is not as files have it", GroupID: groupFiles,
		Long: "End with 8 where the account is not as files have it, and say where: what a plan with --prune " +
			"would change.\n\n" +
			"Nothing is changed. With 0 it is as the files have it.",
		Example: "  gatewright drift account --output json", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		p, err := s.compare(ctx, api, args[0], flags)
		if err != nil {
			return err
		}
		if err := s.writePlan(ctx, p); err != nil {
			return err
		}
		return pendingError(p)
	})
	c.Flags().StringVar(&flags.reports.sarif, "sarif", "", "a `FILE` that what is wrong is written to as SARIF 2.1.0")
	c.Flags().StringVar(&flags.reports.codeQuality, "code-quality", "",
		"a `FILE` that what is wrong is written to as GitLab's code quality report")
	return c
}

// pendingError returns an error if the plan has changes, and nil otherwise.
func pendingError(p *files.Plan) error {
	if len(p.Changes) == 0 {
		return nil
	}
	return exit.WithCode(exit.Pending, fmt.Errorf("the account is not as the files have it: %s", p.Summary()))
}

func (a *App) applyCommand() *cobra.Command {
	var flags compareFlags
	var yes bool
	c := a.lowMemoryCommand(applyTimeout, &cobra.Command{
		Use: "apply PLAN|FILES", Short: "Change what a plan says, or what files want", GroupID: groupFiles,
		Long: "Change what a plan says, or what files want: a folder, or a file that is called .yaml or .yml.\n\n" +
			"A plan is applied as it was written, exactly. Where an object is not as it was planned, nothing from there on is " +
			"made, and it ends with 5. How far\n" +
			"it is stands in the file PLAN.progress: what was cut off goes on by the same command, and makes nothing twice. " +
			"Of files it is shown first\n" +
			"what changes, and asked; a plan asks only where it deletes something.",
		Example: "  gatewright apply release.plan\n  gatewright apply account --yes", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		return s.apply(ctx, args[0], flags, yes)
	})
	flags.register(c)
	flags.registerPrune(c)
	c.Flags().BoolVar(&yes, yesFlag, false, "change it without being asked")
	return c
}

func (s *session) apply(ctx context.Context, name string, flags compareFlags, yes bool) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	fromFiles := err == nil && (info.IsDir() || slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)))
	var p *files.Plan
	path := ""
	if fromFiles {
		if !yes && !s.app.prompter().Interactive() { // fail before the first request
			return s.app.prompter().Confirm(ctx, "The account would be changed", "", "--"+yesFlag)
		}
		if p, err = s.compare(ctx, api, name, flags); err != nil {
			return err
		}
	} else {
		if flags.prune || flags.setSecrets {
			return exit.WithCode(exit.Usage, errors.New("--prune and --set-secrets are for files, and a plan is made already"))
		}
		if p, err = files.Load(name); err != nil {
			return err
		}
		path = name
	}
	if err := s.confirm(ctx, p, fromFiles, yes); err != nil {
		return err
	}
	result, err := files.Apply(ctx, api, p, files.ApplyOptions{
		Path: path, Getenv: s.app.Getenv, Now: s.app.now, Sleep: api.Sleep, Installation: api.Access.Origin.String(),
		OnChange: func(n, total int, _ files.Change) {
			if n%progressInterval == 0 && n < total {
				s.out.Infof("%d of %d changes are made", n, total)
			}
		},
	})
	if err != nil {
		return err
	}
	document, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return s.out.Document(ctx, document, func() (output.Grid, error) {
		line := p.Summary()
		switch {
		case len(p.Changes) == 0:
			line = "no changes"
		case result.Applied == 0:
			line = "applied already: " + line
		default:
			line = "applied: " + strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(line, "to create", "created"),
				"to change", "changed"), "to delete", "deleted")
		}
		return output.Grid{Rows: [][]string{{line}}}, nil
	})
}

// confirm shows the changes if show is true and the output is not JSON. It then asks the user to confirm them, unless
// yes is true or there are no changes. Changes that the user has already seen (show is false) need no confirmation if
// they delete nothing.
func (s *session) confirm(ctx context.Context, p *files.Plan, show, yes bool) error {
	_, _, deleted := p.Counts()
	if show && s.out.Format() != output.JSON && len(p.Changes) > 0 {
		for line := range strings.Lines(planText(p)) {
			if _, err := fmt.Fprint(s.app.Err, line); err != nil {
				return fmt.Errorf("show the plan: %w", err)
			}
		}
	}
	if yes || len(p.Changes) == 0 || !show && deleted == 0 {
		return nil
	}
	return s.app.prompter().Confirm(ctx, fmt.Sprintf("The account %s is changed: %s", output.Printable(p.Account),
		p.Summary()), p.Account, "--"+yesFlag)
}

// compare reads a file, or the YAML files in a folder, and compares their content with the account. If the content is
// invalid, it reports each invalid place and returns an error. It writes the report files in both cases.
func (s *session) compare(ctx context.Context, api *call.API, name string, flags compareFlags) (*files.Plan, error) {
	parsed, err := files.Read(ctx, name)
	var p *files.Plan
	if err == nil {
		p, err = files.Compare(ctx, api, parsed, files.Options{
			Prune: flags.prune, SetSecrets: flags.setSecrets, Getenv: s.app.Getenv, Now: s.app.now,
			Installation: api.Access.Origin.String(),
		})
	}
	invalid, isInvalid := files.AsInvalid(err)
	if err != nil && !isInvalid {
		return nil, err
	}
	r := report.Report{Folder: pathInRepository(ctx, name)}
	if isInvalid {
		r.Errors, r.Source = invalid.Problems, invalid.Source
	}
	if err := errors.Join(flags.reports.write(r), s.report(r)); err != nil {
		return nil, err
	}
	return p, err
}

// pathInRepository returns the path of a folder, or of a file's folder, relative to the root of its git repository. It
// returns "" for the root, and outside of a repository.
func pathInRepository(ctx context.Context, name string) string {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		name = filepath.Dir(name)
	}
	p, err := folder.Open(ctx, name)
	if err != nil {
		return ""
	}
	return p.PathInRepository()
}

// writePlan writes the changes of a plan.
func (s *session) writePlan(ctx context.Context, p *files.Plan) error {
	document, err := p.Document()
	if err != nil {
		return err
	}
	if s.out.Format() == output.Table {
		return s.out.Text(planText(p))
	}
	return s.out.Document(ctx, document, nil)
}

// planText returns the text of a plan for people.
func planText(p *files.Plan) string {
	signs := map[string]string{files.Create: "+", files.Update: "~", files.Delete: "-"}
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s %s", signs[c.Action], c.Kind, output.Printable(strings.Join(c.Name, " ")))
		if c.Action == files.Delete {
			b.WriteString(deletedText(c.Dependents))
		}
		b.WriteByte('\n')
		for _, f := range c.Fields {
			switch {
			case f.Secret:
				fmt.Fprintf(&b, "    %s: a secret, set anew\n", f.Name)
			case c.Action == files.Create:
				fmt.Fprintf(&b, "    %s: %s\n", f.Name, oneLine(f.After))
			default:
				fmt.Fprintf(&b, "    %s: %s → %s\n", f.Name, oneLine(f.Before), oneLine(f.After))
			}
		}
	}
	b.WriteString(p.Summary() + "\n")
	if n := len(p.Unlisted); n > 0 {
		fmt.Fprintf(&b, "%d more that complete lists do not name stay; --prune deletes them\n", n)
	}
	if p.NotCompared > 0 {
		fmt.Fprintf(&b, "secrets that are there and that nobody can compare: %d; --set-secrets sets them anew\n",
			p.NotCompared)
	}
	return b.String()
}

// deletedText describes what is deleted together with an object. A negative count means that the number is unknown, for
// example because the caller's key may not list the objects.
func deletedText(counts map[string]int64) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		n := counts[kind]
		text := fmt.Sprintf("%d %s", n, kind)
		if n == 1 {
			text = "1 " + strings.TrimSuffix(kind, "s")
		}
		if n < 0 {
			text = "all its " + kind
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return ", with " + strings.Join(all, " and ")
}

// oneLine returns the text of a value on one line, with a limited length. It returns "none" if there is no value.
func oneLine(v files.Value) string {
	if len(v) == 0 {
		return "none"
	}
	const maxLength = 120
	return output.Truncate(output.Printable(string(v)), maxLength)
}

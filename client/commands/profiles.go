package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

func (a *App) whoamiCommand() *cobra.Command {
	return a.remoteCommand(&cobra.Command{
		Use: "whoami", Short: "Say which installation is meant, and whose key it is, from where", GroupID: groupProfiles,
		Example: "  gatewright whoami --jq .account", Args: cobra.NoArgs,
	}, func(ctx context.Context, s *session, _ []string) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		resp, err := api.Call(ctx, "V1_whoAmI", nil)
		if err != nil {
			return err
		}
		identity := struct {
			Installation string `json:"installation"`
			Profile      string `json:"profile,omitempty"`
			Key          string `json:"key"`
			Account      string `json:"account,omitempty"`
			Email        string `json:"email,omitempty"`
			Sub          string `json:"sub"`
		}{}
		if err := call.Decode(resp.Body, &identity); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		identity.Installation, identity.Profile, identity.Key = api.Access.Origin.String(), api.Access.Profile,
			api.Access.KeySource
		document, err := json.Marshal(identity)
		if err != nil {
			return fmt.Errorf("write the document: %w", err)
		}
		return s.out.Document(ctx, document, nil)
	})
}

// keyFlags are the flags for the source of a profile's key.
type keyFlags struct {
	file, command string
	fromStdin     bool
}

// apply stores the file or the command of a key in a profile, or the key itself if it comes from stdin. Without a flag,
// apply prompts for the key and stores it.
func (k keyFlags) apply(ctx context.Context, p *profile.Profile, a *App) (err error) {
	sources := 0
	for _, set := range []bool{k.file != "", k.command != "", k.fromStdin} {
		if set {
			sources++
		}
	}
	switch {
	case sources > 1:
		return exit.WithCode(exit.Usage, errors.New("the key has one source: --key-file, --key-command or --key-stdin"))
	case k.file != "":
		if p.KeyFile, err = filepath.Abs(k.file); err != nil {
			return fmt.Errorf("find the file with the key: %w", err)
		}
		return nil
	case k.command != "":
		p.KeyCommand = k.command
		return nil
	case k.fromStdin:
		p.Key, err = profile.ReadKey(a.stdin(ctx))
	default:
		if p.Key, err = a.prompter().AskSecret(ctx, "The account key",
			"--key-stdin, --key-file FILE or --key-command COMMAND"); err == nil {
			p.Key, err = profile.CheckKey("what was typed", p.Key)
		}
	}
	if err != nil && exit.CodeOf(err) == exit.Failure {
		err = exit.WithCode(exit.Usage, err)
	}
	return err
}

var invalidNameChars = lazy.Regexp(`[^a-zA-Z0-9._-]+`)

func (a *App) loginCommand() *cobra.Command {
	var (
		name, account string
		keys          keyFlags
	)
	c := a.remoteCommand(&cobra.Command{
		Use: "login URL", Short: "Keep an installation's address and a key in a profile, and use it from now on",
		GroupID: groupProfiles,
		Long: "Keep an installation's address and a key in a profile, and use it from now on.\n\n" +
			"The key is asked for and not shown, or comes from stdin, from a file or from a command, never from the command " +
			"line, where\n" +
			"all users of the machine see it. Nothing is kept unless the installation takes it. It goes to this address " +
			"alone, and by\n" +
			"plain HTTP to this machine alone.",
		Example: "  gatewright login https://api.example.com\n  gatewright login http://127.0.0.1:9000 --key-stdin < " +
			".gatewright/account-key",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		if s.target.overrides.URL != "" || s.target.overrides.Profile != "" {
			return exit.WithCode(exit.Usage, errors.New("the address is the word after login, and --name names the profile"))
		}
		origin, err := profile.ParseOrigin(args[0])
		if err != nil {
			return err
		}
		account = s.target.overrides.Account
		if name == "" {
			name = strings.Trim(invalidNameChars().ReplaceAllString(origin.Host, "-"), ".-")
		}
		if err := profile.CheckName(name); err != nil {
			return err
		}
		all, _, err := a.profiles()
		if err != nil {
			return err
		}
		created := profile.Profile{URL: origin.String(), Account: account}
		if err := keys.apply(ctx, &created, a); err != nil {
			return err
		}
		all.Profiles[name], all.Current = created, name
		access, err := all.Resolve(profile.Overrides{Profile: name, URL: created.URL}, emptyEnv)
		if err != nil {
			return err
		}
		api := a.api(s, access)
		if created.Account == "" {
			if created.Account, err = api.WhoAmI(ctx); err != nil {
				return err
			}
		} else if _, err := api.Call(ctx, "V1_whoAmI", nil); err != nil {
			return err
		}
		all, path, err := a.profiles() // read the profiles again: another process may have changed them while the user typed
		if err != nil {
			return err
		}
		all.Profiles[name], all.Current = created, name
		if err := all.Save(path); err != nil {
			return err
		}
		s.out.Infof("the profile %s is kept in %s", name, path)
		return profileDocument(ctx, s.out, name, created, true)
	})
	c.Flags().StringVar(&name, "name", "", "what the profile is called; without it the installation's host")
	c.Flags().StringVar(&keys.file, "key-file", "", "a `FILE` with the key, which is read each time")
	c.Flags().StringVar(&keys.command, "key-command", "", "a `COMMAND` that prints the key, which runs each time")
	c.Flags().BoolVar(&keys.fromStdin, "key-stdin", false, "read the key from stdin, and keep it")
	return c
}

// emptyEnv is a getenv function of an empty environment.
func emptyEnv(string) string { return "" }

func (a *App) logoutCommand() *cobra.Command {
	return a.localCommand(&cobra.Command{
		Use: "logout [PROFILE]", Short: "Forget the key of a profile, the current one where none is named",
		GroupID: groupProfiles,
		Long: "Forget the key of a profile, the current one where none is named. Its address and account stay, and the key " +
			"goes on to work until it is\n" +
			"revoked: `gatewright api AccountKeysService_delete` does that.",
		Example: "  gatewright logout", Args: cobra.MaximumNArgs(1),
	}, func(_ context.Context, s *session, args []string) error {
		all, path, name, err := a.selectedProfile(args)
		if err != nil {
			return err
		}
		p := all.Profiles[name]
		p.Key, p.KeyFile, p.KeyCommand = "", "", ""
		all.Profiles[name] = p
		if err := all.Save(path); err != nil {
			return err
		}
		s.out.Infof("the profile %s has no key any more", name)
		return nil
	})
}

// selectedProfile returns all profiles, the path of their file, and the name of the profile in args, or of the current
// profile.
func (a *App) selectedProfile(args []string) (all *profile.Profiles, path, name string, err error) {
	if all, path, err = a.profiles(); err != nil {
		return nil, "", "", err
	}
	name = all.Current
	if len(args) > 0 {
		name = args[0]
	}
	if _, exists := all.Profiles[name]; !exists {
		return nil, "", "",
			exit.WithCode(exit.NotFound, errors.New("there is no such profile: `gatewright profile list` has them"))
	}
	return all, path, name, nil
}

func (a *App) profileCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "profile", Short: "List, choose and delete profiles", GroupID: groupProfiles,
		Example: "  gatewright profile list",
	}
	commandline.MakeGroup(group)
	list := a.localCommand(&cobra.Command{
		Use: "list", Short: "List the profiles",
		Example: "  gatewright profile list --output json", Args: cobra.NoArgs,
	},
		func(ctx context.Context, s *session, _ []string) error {
			all, _, err := a.profiles()
			if err != nil {
				return err
			}
			lines := make([]profileLine, 0, len(all.Profiles))
			for _, name := range all.Names() {
				lines = append(lines, newProfileLine(name, all.Profiles[name], name == all.Current))
			}
			document, err := json.Marshal(lines)
			if err != nil {
				return fmt.Errorf("write the document: %w", err)
			}
			return s.out.Document(ctx, document, func() (output.Grid, error) {
				g, err := output.NewTable(document)
				g.Empty = "There are none: `gatewright login URL` makes one."
				return g, err
			})
		})
	use := a.localCommand(&cobra.Command{
		Use: "use PROFILE", Short: "Use a profile from now on",
		Example: "  gatewright profile use staging", Args: cobra.ExactArgs(1),
	},
		func(ctx context.Context, s *session, args []string) error {
			all, path, name, err := a.selectedProfile(args)
			if err != nil {
				return err
			}
			all.Current = name
			if err := all.Save(path); err != nil {
				return err
			}
			return profileDocument(ctx, s.out, name, all.Profiles[name], true)
		})
	var yes bool
	remove := a.localCommand(&cobra.Command{
		Use: "delete PROFILE", Short: "Delete a profile; its key goes on to work until it is revoked",
		Example: "  gatewright profile delete staging --yes", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		all, path, name, err := a.selectedProfile(args)
		if err != nil {
			return err
		}
		if !yes {
			if err := a.prompter().Confirm(ctx, "The profile is deleted, with the key that it keeps", name,
				"--yes"); err != nil {
				return err
			}
		}
		delete(all.Profiles, name)
		if all.Current == name {
			all.Current = ""
		}
		if err := all.Save(path); err != nil {
			return err
		}
		s.out.Infof("the profile %s is deleted", name)
		return nil
	})
	remove.Flags().BoolVar(&yes, "yes", false, "delete it without being asked")
	group.AddCommand(list, use, remove)
	return group
}

// profileLine is a profile in a document. Key is the source of its key, not the key.
type profileLine struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Account string `json:"account"`
	Key     string `json:"key"`
	Current bool   `json:"current"`
}

func newProfileLine(name string, p profile.Profile, current bool) profileLine {
	return profileLine{name, p.Address(), p.Account, p.Source(), current}
}

func profileDocument(ctx context.Context, out *output.Output, name string, p profile.Profile, current bool) error {
	document, err := json.Marshal(newProfileLine(name, p, current))
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return out.Document(ctx, document, nil)
}

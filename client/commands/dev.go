package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/dev"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/format/project"
)

func (a *App) devCommand() *cobra.Command {
	var o dev.Options
	var certificates []string
	c := a.localCommand(&cobra.Command{
		Use: "dev [FOLDER]", Short: "Serve a project on this machine while you work on it", GroupID: groupProjects,
		Long: "Serve a project on this machine while you work on it, with the gateway of an installation: keys, exact " +
			"limits and quotas included. It needs no\n" +
			"account and no network. Each save is served within a moment; a version that is broken is told, and the last good " +
			"one is still served.\n\n" +
			"A consumer with a key is made for each bucket that the project names, and the key is told. Each request is a " +
			"line on stdout, which says which\n" +
			"policy refused it, and with --output json a JSON document. Variables come from --env-file alone. Ctrl-C lets " +
			"requests that are under way\n" +
			"end, and a second one ends at once.",
		Example: "  gatewright dev\n  gatewright dev shop --env-file .env --key-file .gatewright/dev-keys.json",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		o.Folder = "."
		if len(args) > 0 {
			o.Folder = args[0]
		}
		var err error
		if o.Certificates, err = clientCertificates(certificates); err != nil {
			return exit.WithCode(exit.Usage, err)
		}
		o.Out, o.Color, o.Err, o.ErrColor = a.Out, a.useColor(a.Out), a.Err, a.useColor(a.Err)
		if s.out.Format() != output.Table {
			o.Document = func(document []byte) error { return s.out.Entry(ctx, document) }
		}
		err = dev.Run(ctx, o)
		if _, ok := errors.AsType[*dev.UsageError](err); ok {
			return exit.WithCode(exit.Usage, err)
		}
		return err
	})
	flags := c.Flags()
	flags.StringVar(&o.Addr, "addr", dev.DefaultAddr, "where to listen, host:port; port 0 is any that is free")
	flags.StringArrayVar(&o.Hosts, "host", nil,
		"a name that requests may be for, beside localhost and addresses; may be repeated")
	flags.StringVar(&o.EnvFile, "env-file", "",
		"a `FILE` with the project's variables, NAME=VALUE on a line each; it is watched too")
	flags.StringVar(&o.KeyFile, "key-file", "", "a `FILE` that keeps the consumers' keys, which is made where it is not "+
		"there; without it they end with this run")
	flags.Int64Var(&o.Units, "units", dev.DefaultUnits, "how many units of each meter a customer has in a month")
	flags.StringArrayVar(&certificates, "certificate", nil,
		"a client certificate that routes show, `NAME=CHAIN,KEY` of two files in PEM; may be repeated")
	return c
}

// clientCertificates reads the certificates and the keys that --certificate names. values are the values of the flag.
func clientCertificates(values []string) (map[string]project.ClientCertificate, error) {
	all := map[string]project.ClientCertificate{}
	for _, value := range values {
		name, files, _ := strings.Cut(value, "=")
		chainFile, keyFile, ok := strings.Cut(files, ",")
		if name == "" || !ok {
			return nil, errors.New("--certificate is NAME=CHAIN,KEY: the name that the project has for it, and two files in PEM")
		}
		chain, err := readPEMFile(chainFile, false)
		if err != nil {
			return nil, err
		}
		key, err := readPEMFile(keyFile, true)
		if err != nil {
			return nil, err
		}
		all[name] = project.ClientCertificate{Chain: chain, Key: key}
	}
	return all, nil
}

// maxPEM is the maximum size of a certificate or key file, in bytes.
const maxPEM = 1 << 20

// readPEMFile reads a PEM file. If isSecret is true, the file must not be readable by other users.
func readPEMFile(name string, isSecret bool) (string, error) {
	f, err := os.Open(name) //nolint:gosec // G304: a file that the user names
	if err != nil {
		return "", fmt.Errorf("--certificate: %q can't be read: %w", name, disk.Cause(err))
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && isSecret && disk.Exposed(info.Mode()) {
		return "", fmt.Errorf("--certificate: others can read the private key %q: make it yours alone (chmod 600)", name)
	}
	data, err := disk.ReadAtMost(f, maxPEM)
	if err != nil {
		return "", fmt.Errorf("--certificate: %q can't be read: %w", name, disk.Cause(err))
	}
	return string(data), nil
}

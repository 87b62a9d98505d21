package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// bulkTimeout is the default of --timeout for `consumer key create`, which can create all keys of a file.
const bulkTimeout = 6 * time.Hour

// fromFlag is the flag that names a file of keys to create.
const fromFlag = "from"

// keyLostHint says what to do if a consumer's new key could not be shown.
const keyLostHint = "`gatewright consumer key get {id} --bucket {bucketName} --consumer {consumerName} --reveal` " +
	"shows it if the bucket's keys can be read again, and `consumer key delete` deletes it"

func (a *App) keyCommands() []*cobra.Command {
	return []*cobra.Command{a.keyCreateCommand(), a.keyRollCommand(), a.keyCheckCommand()}
}

func (a *App) keyCreateCommand() *cobra.Command {
	v := verb{
		name: "create", short: "Make a key of a consumer, or the keys of a file", operation: "ApiKeyKeysService_create",
		secretMember: keyMember,
		lostHint:     keyLostHint,
		long: "The key is on stdout, this once, or in the file of --out. A key of your own comes from the file of " +
			"--key-file.\n\n" +
			"--from has a CSV file of keys. Its first line names the columns: name, which is a consumer, who is made if it is " +
			"not there, and any of description,\n" +
			"expiresOn and key; with --consumer all keys are of that one, and there is no name. The keys are written into " +
			"FILE.done, which its owner alone may\n" +
			"read, each before the next is asked for: run it again after whatever has stopped it, and it goes on there. No " +
			"key is made twice.",
		params: []parameter{
			bucketParam,
			{argument: "consumerName", flag: "consumer", help: "the consumer, by its name"},
			descriptionParam, expiryParam,
			{argument: "key", flag: "key-file", kind: asFile, help: "a key of your own"},
		},
	}
	var from string
	c := v.newCommand("gatewright consumer key")
	c.Example += " --consumer acme --out acme.key\n  gatewright consumer key create --bucket partners --from partners.csv"
	a.remoteCommandWithTimeout(bulkTimeout, c, func(ctx context.Context, s *session, args []string) error {
		arguments, err := v.arguments(c, args, &flagReader{in: a.stdin(ctx)}, a.now)
		if err != nil {
			return err
		}
		out, _ := c.Flags().GetString(outFlag)
		if from == "" {
			if arguments["consumerName"] == nil {
				return exit.WithCode(exit.Usage, errors.New("it needs --consumer, or --from with a file"))
			}
			return s.createSecret(ctx, v, arguments, out)
		}
		for _, flag := range []string{"description", "expires-in", "key-file", outFlag} {
			if c.Flags().Changed(flag) {
				return exit.WithCode(exit.Usage,
					fmt.Errorf("--%s is for one key, and --%s is a file of some, which says it for each", flag, fromFlag))
			}
		}
		return s.createKeys(ctx, from, arguments)
	})
	a.addFlags(v, c)
	c.Flags().StringVar(&from, fromFlag, "", "a CSV `FILE` with a key for each line")
	return c
}

func (a *App) keyRollCommand() *cobra.Command {
	v := verb{
		name: "roll", short: "Make a new key for a consumer, and have those without an end expire",
		operation: "ApiKeyConsumersService_rollKey", secretMember: keyMember,
		lostHint: keyLostHint,
		long: "The new key is on stdout, this once, or in the file of --out. Those before work until the time of " +
			"--expires-in, so that callers can change over.",
		params: []parameter{bucketParam, consumerParam, parameter{
			argument: "expiresOn", flag: "expires-in", kind: asTime, help: "when the keys end that have no end",
		}.mandatory("24h")},
	}
	c := v.newCommand("gatewright consumer key")
	a.remoteCommand(c, func(ctx context.Context, s *session, args []string) error {
		arguments, err := v.arguments(c, args, nil, a.now)
		if err != nil {
			return err
		}
		out, _ := c.Flags().GetString(outFlag)
		listVerb := v // writeSecret masks the document, which is an entry of the list operation's response
		listVerb.operation = "ApiKeyKeysService_list"
		return s.writeSecret(ctx, listVerb, out, arguments, func() ([]byte, error) {
			return s.rollKeys(ctx, v.operation, arguments)
		})
	})
	a.addFlags(v, c)
	return c
}

// rollKeys rolls the keys of a consumer, and returns the new key. The response does not contain the key, so rollKeys
// reads the first entry of the consumer's list of keys, which is the newest key.
func (s *session) rollKeys(ctx context.Context, operation string, arguments map[string]any) ([]byte, error) {
	if _, err := s.call(ctx, operation, arguments); err != nil {
		return nil, err
	}
	resp, err := s.call(ctx, "ApiKeyKeysService_list", map[string]any{
		"bucketName": arguments["bucketName"], "consumerName": arguments["consumerName"], keyFormatArgument: "visible",
		"limit": 1,
	})
	if err != nil {
		return nil, fmt.Errorf("the keys are rolled, and the new one cannot be read: %w", err)
	}
	var list struct{ Data []json.RawMessage }
	if err := json.Unmarshal(resp.Body, &list); err != nil || len(list.Data) == 0 {
		return nil, errors.New("the keys are rolled, and the list does not have the new one")
	}
	return list.Data[0], nil
}

// credentialKinds returns the kinds of credentials that `consumer key check` recognizes, with the prefix of each kind.
// The tokens of sessions are not among them.
func credentialKinds() []struct{ prefix, kind string } {
	return []struct{ prefix, kind string }{
		{credential.ConsumerKey, "consumer key"},
		{credential.AccountKey, "account key"},
		{credential.BucketToken, "bucket token"},
	}
}

// keyCheckCommand returns the command that checks the form of a key offline.
func (a *App) keyCheckCommand() *cobra.Command {
	var file string
	c := a.localCommand(&cobra.Command{
		Use: "check", Short: "Say whether a key can be right, by its checksum, and ask nobody", Args: cobra.NoArgs,
		Long: "Say whether a key can be right, by its checksum, and ask nobody. It comes from stdin or a file, and is " +
			"never shown. One that cannot be\n" +
			"right ends this with 6; whether it works is for the installation to say.",
		Example: "  gatewright consumer key check < acme.key",
	}, func(ctx context.Context, s *session, _ []string) error {
		reader := &flagReader{in: a.stdin(ctx)}
		var text string
		var err error
		if file != "" {
			var content []byte
			content, err = reader.readFile("file", file)
			text = trimNewline(content)
		} else {
			text, err = a.readValue(ctx, "The key", reader)
		}
		if err != nil {
			return err
		}
		kind, err := credentialKind(strings.TrimSpace(text))
		if err != nil {
			return exit.WithCode(exit.Invalid, err)
		}
		document, err := json.Marshal(map[string]string{"kind": kind, "checksum": "right"})
		if err != nil {
			return fmt.Errorf("write the document: %w", err)
		}
		return s.out.Document(ctx, document, nil)
	})
	c.Flags().StringVar(&file, "file", "", "a `FILE` with the key")
	return c
}

// credentialKind returns the kind of a key, or an error if its form is invalid. The error contains no part of the key.
func credentialKind(text string) (string, error) {
	for _, c := range credentialKinds() {
		switch {
		case credential.WellFormed(c.prefix, text):
			return c.kind, nil
		case credential.HasPrefix(c.prefix, text):
			return "", fmt.Errorf("it begins as a %s does, and its checksum is wrong: something is mistyped, or missing", c.kind)
		}
	}
	return "", errors.New("it is no key that an installation makes: a key of your own has no checksum")
}

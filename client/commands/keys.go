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
	"github.com/gatewright/gatewright/shared/credential"
)

// bulkTime is how long a file of keys may take where nobody says otherwise.
const bulkTime = 6 * time.Hour

// fromFlag names a file with keys to make.
const fromFlag = "from"

// keyLost is what to do about a key of a consumer that nobody has seen.
const keyLost = "`gatewright consumer key get {id} --bucket {bucketName} --consumer {consumerName} --reveal` shows it if the bucket's keys can be read again, and `consumer key delete` deletes it"

func (a *App) keyCommands() []*cobra.Command {
	return []*cobra.Command{a.keyCreateCommand(), a.keyRollCommand(), a.keyCheckCommand()}
}

func (a *App) keyCreateCommand() *cobra.Command {
	v := verb{
		name: "create", short: "Make a key of a consumer, or the keys of a file", operation: "ApiKeyKeysService_create", made: keyMember,
		lost: keyLost,
		long: "The key is on stdout, this once, or in the file of --out. A key of your own comes from the file of --key-file.\n\n" +
			"--from has a CSV file of keys. Its first line names the columns: name, which is a consumer, who is made if it is not there, and any of description,\n" +
			"expiresOn and key; with --consumer all keys are of that one, and there is no name. The keys are written into FILE.done, which its owner alone may\n" +
			"read, each before the next is asked for: run it again after whatever has stopped it, and it goes on there. No key is made twice.",
		takes: []given{inBucket, {argument: "consumerName", flag: "consumer", text: "the consumer, by its name"}, description, expires, {argument: "key", flag: "key-file", kind: asFile, text: "a key of your own"}},
	}
	var from string
	c := v.shape("gatewright consumer key")
	c.Example += " --consumer acme --out acme.key\n  gatewright consumer key create --bucket partners --from partners.csv"
	a.askingFor(bulkTime, c, func(ctx context.Context, s *session, words []string) error {
		arguments, err := v.arguments(c, words, &onceRead{in: a.stdin(ctx)}, a.now)
		if err != nil {
			return err
		}
		out, _ := c.Flags().GetString(outFlag)
		if from == "" {
			if arguments["consumerName"] == nil {
				return exit.With(exit.Usage, errors.New("it needs --consumer, or --from with a file"))
			}
			return s.make(ctx, v, arguments, out)
		}
		for _, flag := range []string{"description", "expires-in", "key-file", outFlag} {
			if c.Flags().Changed(flag) {
				return exit.With(exit.Usage, fmt.Errorf("--%s is for one key, and --%s is a file of some, which says it for each", flag, fromFlag))
			}
		}
		return s.bulk(ctx, from, arguments)
	})
	a.flags(v, c)
	c.Flags().StringVar(&from, fromFlag, "", "a CSV `FILE` with a key for each line")
	return c
}

func (a *App) keyRollCommand() *cobra.Command {
	v := verb{
		name: "roll", short: "Make a new key for a consumer, and have those without an end expire", operation: "ApiKeyConsumersService_rollKey", made: keyMember,
		lost: keyLost,
		long: "The new key is on stdout, this once, or in the file of --out. Those before work until the time of --expires-in, so that callers can change over.",
		takes: []given{inBucket, ofConsumer, given{
			argument: "expiresOn", flag: "expires-in", kind: asTime, text: "when the keys end that have no end",
		}.must("24h")},
	}
	c := v.shape("gatewright consumer key")
	a.asking(c, func(ctx context.Context, s *session, words []string) error {
		arguments, err := v.arguments(c, words, nil, a.now)
		if err != nil {
			return err
		}
		out, _ := c.Flags().GetString(outFlag)
		read := v
		read.operation = "ApiKeyKeysService_list"
		return s.made(ctx, read, out, arguments, func() ([]byte, error) { return s.roll(ctx, v.operation, arguments) })
	})
	a.flags(v, c)
	return c
}

// roll rolls the keys of a consumer, and reads the new one, which the answer does not have: it is the first of the list.
func (s *session) roll(ctx context.Context, operation string, arguments map[string]any) ([]byte, error) {
	if _, err := s.named(ctx, operation, arguments); err != nil {
		return nil, err
	}
	answer, err := s.named(ctx, "ApiKeyKeysService_list", map[string]any{
		"bucketName": arguments["bucketName"], "consumerName": arguments["consumerName"], keyFormat: "visible", "limit": 1,
	})
	if err != nil {
		return nil, fmt.Errorf("the keys are rolled, and the new one cannot be read: %w", err)
	}
	var list struct{ Data []json.RawMessage }
	if err := json.Unmarshal(answer.Body, &list); err != nil || len(list.Data) == 0 {
		return nil, errors.New("the keys are rolled, and the list does not have the new one")
	}
	return list.Data[0], nil
}

// credentials are the kinds of texts that an installation makes.
func credentials() []struct{ prefix, kind string } {
	return []struct{ prefix, kind string }{
		{credential.ConsumerKey, "consumer key"}, {credential.AccountKey, "account key"}, {credential.BucketToken, "bucket token"},
	}
}

// keyCheckCommand says of a key whether it can be one, and asks nobody.
func (a *App) keyCheckCommand() *cobra.Command {
	var file string
	c := a.local(&cobra.Command{
		Use: "check", Short: "Say whether a key can be right, by its checksum, and ask nobody", Args: cobra.NoArgs,
		Long: "Say whether a key can be right, by its checksum, and ask nobody. It comes from stdin or a file, and is never shown. One that cannot be\n" +
			"right ends this with 6; whether it works is for the installation to say.",
		Example: "  gatewright consumer key check < acme.key",
	}, func(ctx context.Context, s *session, _ []string) error {
		stdin := &onceRead{in: a.stdin(ctx)}
		var text string
		var err error
		if file != "" {
			var content []byte
			content, err = stdin.file("file", file)
			text = oneText(content)
		} else {
			text, err = a.valueOf(ctx, "The key", stdin)
		}
		if err != nil {
			return err
		}
		kind, err := kindOf(strings.TrimSpace(text))
		if err != nil {
			return exit.With(exit.Invalid, err)
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

// kindOf is what kind of key a text is. Its errors hold none of it.
func kindOf(text string) (string, error) {
	for _, c := range credentials() {
		switch {
		case credential.WellFormed(c.prefix, text):
			return c.kind, nil
		case credential.HasPrefix(c.prefix, text):
			return "", fmt.Errorf("it begins as a %s does, and its checksum is wrong: something is mistyped, or missing", c.kind)
		}
	}
	return "", errors.New("it is no key that an installation makes: a key of your own has no checksum")
}

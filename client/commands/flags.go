package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/lazy"
	"github.com/gatewright/gatewright/shared/project"
)

// schema is what a flag needs of an argument's.
type schema struct {
	Type        kinds           `json:"type"`
	Description string          `json:"description"`
	Enum        []any           `json:"enum"`
	Default     json.RawMessage `json:"default"`
	MaxLength   int             `json:"maxLength"`
	Items       *struct {
		Type kinds `json:"type"`
	} `json:"items"`
}

// kinds are the types of a schema without null.
type kinds []string

// UnmarshalJSON implements json.Unmarshaler: a type is a text, or a list of some.
func (k *kinds) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*k = kinds{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*k = slices.DeleteFunc(all, func(s string) bool { return s == "null" })
	return nil
}

func (k kinds) is(kind string) bool { return len(k) == 1 && k[0] == kind }

// longText is the length from which on a text comes by a file: nobody types a certificate.
const longText = 8 << 10

// argument is one of an operation's, and its flag.
type argument struct {
	name, flag string
	// file says that the flag names a file with the value: one that is a secret, which nobody types where all users of the machine
	// see it, or a long text.
	file     bool
	required bool
	schema   schema
}

var upper = lazy.Regexp(`([a-z0-9])([A-Z])`)

// flagName is the flag for an argument: account-name for accountName.
func flagName(name string) string { return strings.ToLower(upper().ReplaceAllString(name, "$1-$2")) }

// bodyFlag is the flag for the whole body.
const bodyFlag = "body"

// arguments are those of an operation that have flags.
func arguments(t *apitools.Tool) ([]argument, error) {
	var input struct {
		Properties map[string]schema `json:"properties"`
		Required   []string          `json:"required"`
	}
	if err := json.Unmarshal(t.Input, &input); err != nil {
		return nil, fmt.Errorf("read the arguments of %s: %w", t.Name, err)
	}
	var all []argument
	for _, of := range t.Arguments {
		if of.Place == project.InBody {
			continue // --body
		}
		a := argument{name: of.Name, flag: flagName(of.Name), schema: input.Properties[of.Name]}
		a.required = slices.Contains(input.Required, of.Name)
		secret := t.Given != nil && t.Given.Members[of.Name] != nil && t.Given.Members[of.Name].Secret
		if a.file = secret || a.schema.Type.is("string") && a.schema.MaxLength >= longText; a.file {
			a.flag += "-file"
		}
		all = append(all, a)
	}
	return all, nil
}

// register adds the flag.
func (a argument) register(flags *pflag.FlagSet) {
	text := strings.TrimSuffix(a.schema.Description, ".")
	var notes []string
	if len(a.schema.Enum) > 0 {
		notes = append(notes, "one of "+strings.Join(a.enum(), ", "))
	}
	if len(a.schema.Default) > 0 && string(a.schema.Default) != "null" {
		notes = append(notes, "default "+string(a.schema.Default))
	}
	if a.required && a.name != accountArgument {
		notes = append(notes, "required")
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, "; ") + ")"
	}
	switch {
	case a.file:
		flags.String(a.flag, "", "a `FILE` with it, - for stdin: "+text)
	case a.schema.Type.is("boolean"):
		flags.Bool(a.flag, false, text)
	case a.schema.Type.is("integer"):
		flags.Int64(a.flag, 0, text)
	case a.repeats():
		flags.StringArray(a.flag, nil, text+"; once for each")
	case a.schema.Type.is("string"):
		flags.String(a.flag, "", text)
	default:
		flags.String(a.flag, "", "in `JSON`: "+text)
	}
}

// repeats reports whether the flag is typed once for each entry.
func (a argument) repeats() bool {
	return a.schema.Type.is("array") && a.schema.Items != nil && a.schema.Items.Type.is("string")
}

func (a argument) enum() []string {
	var all []string
	for _, v := range a.schema.Enum {
		if text, isText := v.(string); isText {
			all = append(all, text)
		} else if v != nil {
			all = append(all, fmt.Sprint(v))
		}
	}
	return all
}

// value is what is typed for the argument, in JSON, nil for nothing.
func (a argument) value(flags *pflag.FlagSet, stdin *onceRead) (json.RawMessage, error) {
	f := flags.Lookup(a.flag)
	if !f.Changed {
		return nil, nil
	}
	var v any
	switch text := f.Value.String(); {
	case a.file:
		content, err := stdin.file(a.flag, text)
		if err != nil {
			return nil, err
		}
		v = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	case a.schema.Type.is("boolean"), a.schema.Type.is("integer"):
		return json.RawMessage(text), nil
	case a.repeats():
		list, err := flags.GetStringArray(a.flag)
		if err != nil {
			return nil, err
		}
		v = list
	case a.schema.Type.is("string"):
		if all := a.enum(); len(all) > 0 && !slices.Contains(all, text) {
			return nil, exit.With(exit.Usage, fmt.Errorf("--%s is one of %s", a.flag, strings.Join(all, ", ")))
		}
		v = text
	default:
		if !json.Valid([]byte(text)) {
			return nil, exit.With(exit.Usage, fmt.Errorf("--%s takes JSON, and what is typed is none: mind the shell's quotes", a.flag))
		}
		return json.RawMessage(text), nil
	}
	text, err := json.Marshal(v)
	return text, err
}

// onceRead reads files that flags name; stdin is for one of them alone.
type onceRead struct {
	in    io.Reader
	taken string
}

// mostFile bounds what is read of a file that a flag names, in bytes: the API takes less.
const mostFile = 16 << 20

// file reads the text that a flag names. What is no text is refused: JSON has no bytes, and each would become another character.
func (o *onceRead) file(flag, name string) ([]byte, error) {
	in := o.in
	switch {
	case name == "-" && o.taken != "":
		return nil, exit.With(exit.Usage, fmt.Errorf("--%s and --%s cannot both come from stdin", o.taken, flag))
	case name == "-":
		o.taken = flag
	default:
		f, err := os.Open(name) //nolint:gosec // G304: a file that the user names
		if err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("--%s: %s cannot be read: %w", flag, name, disk.Cause(err)))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, mostFile+1))
	if err == nil && len(text) > mostFile {
		err = fmt.Errorf("it has more than %d bytes", mostFile)
	}
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("--%s: %s cannot be read: %w", flag, name, disk.Cause(err)))
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, exit.With(exit.Usage, fmt.Errorf("--%s: %s is no text (UTF-8): `openssl x509 -inform der` and `openssl pkey -inform der` make PEM of what is in DER", flag, name))
	}
	return text, nil
}

// typedArguments are those of a call: what flags say, and the members of the body that --body names.
func typedArguments(cmd *cobra.Command, t *apitools.Tool, all []argument, stdin io.Reader) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	read := &onceRead{in: stdin}
	flags := cmd.Flags()
	if f := flags.Lookup(bodyFlag); f != nil && f.Changed {
		text, err := read.file(bodyFlag, f.Value.String())
		if err != nil {
			return nil, err
		}
		if err := takeBody(t, values, text); err != nil {
			return nil, exit.With(exit.Usage, err)
		}
	}
	var missing []string
	for _, a := range all {
		value, err := a.value(flags, read)
		switch {
		case err != nil:
			return nil, err
		case value != nil:
			values[a.name] = value
		case a.required && values[a.name] == nil && a.name != accountArgument:
			missing = append(missing, "--"+a.flag)
		}
	}
	if len(missing) > 0 {
		return nil, exit.With(exit.Usage, fmt.Errorf("it needs %s: `%s --help` says what they are", strings.Join(missing, ", "), cmd.CommandPath()))
	}
	return values, nil
}

// takeBody takes over a whole body: its members, or, for an operation whose body is no object, all of it.
func takeBody(t *apitools.Tool, values map[string]json.RawMessage, text []byte) error {
	text = bytes.TrimSpace(text)
	if slices.ContainsFunc(t.Arguments, func(a project.Argument) bool { return a.Place == project.InBody }) {
		if !json.Valid(text) {
			return errors.New("--body has no JSON")
		}
		values[bodyFlag] = text
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return errors.New("--body has no object in JSON")
	}
	for name, value := range members {
		i := slices.IndexFunc(t.Arguments, func(a project.Argument) bool { return a.Name == name })
		if i >= 0 && t.Arguments[i].Place != project.InProperty {
			return fmt.Errorf("--body has %s, which is no member of the body: it is typed as --%s", strconv.Quote(name), flagName(name))
		}
		values[name] = value
	}
	return nil
}

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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// schema has the parts of an argument's schema that determine its flag.
type schema struct {
	Type        schemaTypes     `json:"type"`
	Description string          `json:"description"`
	Enum        []any           `json:"enum"`
	Default     json.RawMessage `json:"default"`
	MinLength   int             `json:"minLength"`
	MaxLength   int             `json:"maxLength"`
	Pattern     string          `json:"pattern"`
	Items       *struct {
		Type schemaTypes `json:"type"`
	} `json:"items"`
}

// schemaTypes are the types of a schema. Null is omitted from a list of types.
type schemaTypes []string

// UnmarshalJSON implements json.Unmarshaler. JSON Schema allows a text or a list of texts as the type.
func (t *schemaTypes) UnmarshalJSON(data []byte) error {
	var single string
	if json.Unmarshal(data, &single) == nil {
		*t = schemaTypes{single}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*t = slices.DeleteFunc(all, func(s string) bool { return s == "null" })
	return nil
}

func (t schemaTypes) isOnly(name string) bool { return len(t) == 1 && t[0] == name }

// minFileLength decides which flags name a file instead of the value: the flag of a text argument names a file if the
// schema allows minFileLength or more characters. The flag of a certificate is an example.
const minFileLength = 8 << 10

// argument is an argument of an operation, with its flag, in a command that is generated (operationCommand).
type argument struct {
	name, flag string
	// isFile says that the flag names a file with the value. Such a value is a long text, or a secret that other users of
	// the machine could see on the command line.
	isFile   bool
	required bool
	// isBodyMember says that the argument is a member of the request's body.
	isBodyMember bool
	schema       schema
}

var wordBoundary = lazy.Regexp(`([a-z0-9])([A-Z])`)

// flagName returns the name of the flag for an argument: account-name for accountName.
func flagName(name string) string {
	return strings.ToLower(wordBoundary().ReplaceAllString(name, "$1-$2"))
}

// bodyFlag is the flag for the whole body.
const bodyFlag = "body"

// operationArguments returns the arguments of an operation that have flags.
func operationArguments(t *apitools.Tool) ([]argument, error) {
	var input struct {
		Properties map[string]schema `json:"properties"`
		Required   []string          `json:"required"`
	}
	if err := json.Unmarshal(t.Input, &input); err != nil {
		return nil, fmt.Errorf("read the arguments of %s: %w", t.Name, err)
	}
	var all []argument
	for _, arg := range t.Arguments {
		if arg.Location == project.InBody {
			continue // --body sets this argument
		}
		a := argument{name: arg.Name, flag: flagName(arg.Name), schema: input.Properties[arg.Name]}
		a.required, a.isBodyMember = slices.Contains(input.Required, arg.Name), arg.Location == project.InProperty
		isSecret := t.ArgumentSecrets != nil && t.ArgumentSecrets.Members[arg.Name] != nil &&
			t.ArgumentSecrets.Members[arg.Name].Secret
		if a.isFile = isSecret || a.schema.Type.isOnly("string") && a.schema.MaxLength >= minFileLength; a.isFile {
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
	case a.isFile:
		flags.String(a.flag, "", "a `FILE` with it, - for stdin: "+text)
	case a.schema.Type.isOnly("boolean"):
		flags.Bool(a.flag, false, text)
	case a.schema.Type.isOnly("integer"):
		flags.Int64(a.flag, 0, text)
	case a.isRepeatable():
		flags.StringArray(a.flag, nil, text+"; once for each")
	case a.schema.Type.isOnly("string"):
		flags.String(a.flag, "", text)
	default:
		flags.String(a.flag, "", "in `JSON`: "+text)
	}
	if a.allowsEmpty() {
		allowEmpty(flags, a.flag)
	}
}

// emptyArguments returns the members of a request's body for which an empty text means something else than no value:
// it clears them. The schemas of names, branches and addresses may allow an empty text too, but it is never meant.
func emptyArguments() []string { return []string{"description"} }

// allowsEmpty reports whether an empty text is a value of the argument: it is one of emptyArguments, and its schema
// allows an empty text.
func (a argument) allowsEmpty() bool {
	return a.isBodyMember && slices.Contains(emptyArguments(), a.name) && a.schema.Type.isOnly("string") &&
		a.schema.MinLength == 0 && a.schema.Pattern == "" && len(a.schema.Enum) == 0
}

// isRepeatable reports whether the flag sets a list and is repeated for each entry.
func (a argument) isRepeatable() bool {
	return a.schema.Type.isOnly("array") && a.schema.Items != nil && a.schema.Items.Type.isOnly("string")
}

func (a argument) enum() []string {
	var all []string
	for _, v := range a.schema.Enum {
		if text, ok := v.(string); ok {
			all = append(all, text)
		} else if v != nil {
			all = append(all, fmt.Sprint(v))
		}
	}
	return all
}

// value returns the value of the flag in JSON, nil if the flag is not set.
func (a argument) value(flags *pflag.FlagSet, reader *flagReader) (json.RawMessage, error) {
	f := flags.Lookup(a.flag)
	if !f.Changed {
		return nil, nil
	}
	var v any
	switch text := f.Value.String(); {
	case a.isFile:
		content, err := reader.readFile(a.flag, text)
		if err != nil {
			return nil, err
		}
		v = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	case a.schema.Type.isOnly("boolean"), a.schema.Type.isOnly("integer"):
		return json.RawMessage(text), nil
	case a.isRepeatable():
		list, err := flags.GetStringArray(a.flag)
		if err != nil {
			return nil, err
		}
		v = list
	case a.schema.Type.isOnly("string"):
		if all := a.enum(); len(all) > 0 && !slices.Contains(all, text) {
			return nil, exit.WithCode(exit.Usage, fmt.Errorf("--%s is one of %s", a.flag, strings.Join(all, ", ")))
		}
		v = text
	default:
		if !json.Valid([]byte(text)) {
			return nil, exit.WithCode(exit.Usage,
				fmt.Errorf("--%s takes JSON, and what is typed is none: mind the shell's quotes", a.flag))
		}
		return json.RawMessage(text), nil
	}
	text, err := json.Marshal(v)
	return text, err
}

// flagReader reads files that flags name. Only one flag can read stdin. in is stdin, and stdinFlag is the flag that has
// read it, "" for none.
type flagReader struct {
	in        io.Reader
	stdinFlag string
}

// maxFileSize is the maximum size of a file that a flag names, in bytes. The API accepts less.
const maxFileSize = 16 << 20

// readFile reads the file that a flag names, or stdin if the name is -. It refuses content that is not UTF-8, because
// the JSON encoder would replace the invalid bytes. It also refuses content with a zero byte, which is probably not a
// text.
func (r *flagReader) readFile(flag, name string) ([]byte, error) {
	text, err := r.readBytes(flag, name, maxFileSize)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s is no text (UTF-8): `openssl x509 -inform der` and "+
			"`openssl pkey -inform der` make PEM of what is in DER", flag, name))
	}
	return text, nil
}

// readBytes reads the file that a flag names, or stdin if the name is -. It returns an error for more than limit bytes.
func (r *flagReader) readBytes(flag, name string, limit int64) ([]byte, error) {
	in := r.in
	switch {
	case name == "-" && r.stdinFlag != "":
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("--%s and --%s cannot both come from stdin", r.stdinFlag, flag))
	case name == "-":
		r.stdinFlag = flag
	default:
		f, err := os.Open(name) //nolint:gosec // G304: a file that the user names
		if err != nil {
			return nil, exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s cannot be read: %w", flag, name, disk.Cause(err)))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := disk.ReadAtMost(in, limit)
	if err != nil {
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s cannot be read: %w", flag, name, disk.Cause(err)))
	}
	return text, nil
}

// argumentsFromFlags returns the arguments of a call: the values of flags, and the members of the body in the file that
// --body names. A flag replaces the member of the body with the same name.
func argumentsFromFlags(
	cmd *cobra.Command, t *apitools.Tool, all []argument, stdin io.Reader,
) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	reader := &flagReader{in: stdin}
	flags := cmd.Flags()
	if f := flags.Lookup(bodyFlag); f != nil && f.Changed {
		text, err := reader.readFile(bodyFlag, f.Value.String())
		if err != nil {
			return nil, err
		}
		if err := addBody(t, values, text); err != nil {
			return nil, exit.WithCode(exit.Usage, err)
		}
	}
	var missing []string
	for _, a := range all {
		value, err := a.value(flags, reader)
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
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("it needs %s: `%s --help` says what they are",
			strings.Join(missing, ", "), cmd.CommandPath()))
	}
	return values, nil
}

// addBody adds the members of a request body to values. text is the body in JSON. If the operation's body is not an
// object, addBody adds the body as one value, with the name body.
func addBody(t *apitools.Tool, values map[string]json.RawMessage, text []byte) error {
	text = bytes.TrimSpace(text)
	if slices.ContainsFunc(t.Arguments, func(a project.Argument) bool { return a.Location == project.InBody }) {
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
		if i >= 0 && t.Arguments[i].Location != project.InProperty {
			return fmt.Errorf("--body has %s, which is no member of the body: it is typed as --%s", strconv.Quote(name),
				flagName(name))
		}
		values[name] = value
	}
	return nil
}

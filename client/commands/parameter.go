package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gatewright/gatewright/client/exit"
)

// kind is the form of a value on the command line.
type kind int

const (
	// asText is a text.
	asText kind = iota
	// asBool is a flag without a value, or with =false.
	asBool
	// asNumber is an integer.
	asNumber
	// asList is a list: the flag is repeated for each entry. With allowAll, the single entry "all" becomes the text
	// "all" instead of a list.
	asList
	// asPairs is an object whose values are texts: the flag is repeated with NAME=VALUE for each member.
	asPairs
	// asTags is like asPairs, for a query that filters by tags: each pair becomes a query parameter tag.NAME.
	asTags
	// asJSON is a value of any type, in JSON.
	asJSON
	// asFile is a text in a file, such as a certificate or a secret. The flag names the file, and - means stdin.
	asFile
	// asTime is an instant (RFC 3339), or a duration from now, such as 720h.
	asTime
	// asPastTime is an instant, or a duration before now.
	asPastTime
	// asBranch is the name of a branch (branchName).
	asBranch
)

// parameter is an argument of an operation, in a command that is written by hand. It is a positional argument or a
// flag.
type parameter struct {
	// argument is the argument's name in the operation. placeholder is the name of a positional argument in the help,
	// "" for a flag. flag is the name of the flag.
	argument, placeholder, flag string
	// help is the help of the flag. example is the value in examples.
	help, example string
	kind          kind
	required      bool
	// allowEmpty says that an empty text is allowed and means no value. emptyIsValue says that an empty text is a value,
	// such as an empty description.
	allowEmpty, emptyIsValue bool
	// allowAll says that a list with the single entry "all" becomes the text "all".
	allowAll bool
	// choices are the allowed values, nil if all values are allowed. defaultValue is the value if the flag is not set,
	// "" for none.
	choices      []string
	defaultValue string
}

// mandatory returns a copy of p that is required, with an example.
func (p parameter) mandatory(example string) parameter {
	p.required, p.example = true, example
	return p
}

// withDefault returns a copy of p with a default.
func (p parameter) withDefault(defaultValue string) parameter {
	p.defaultValue = defaultValue
	return p
}

// register adds the flag.
func (p parameter) register(flags *pflag.FlagSet) {
	help := p.help
	if len(p.choices) > 0 {
		help += ": " + strings.Join(p.choices, ", ")
	}
	switch p.kind {
	case asBool:
		flags.Bool(p.flag, false, help)
	case asNumber:
		flags.Int64(p.flag, 0, help)
	case asList:
		flags.StringArray(p.flag, nil, help+"; once for each")
	case asPairs, asTags:
		flags.StringArray(p.flag, nil, "`NAME=VALUE`: "+help+"; once for each")
	case asFile:
		flags.String(p.flag, "", "a `FILE` with "+help+", - for stdin")
	case asTime:
		flags.String(p.flag, "", "a `TIME` such as 2030-01-31T00:00:00Z, or from now on such as 720h: "+help)
	case asPastTime:
		flags.String(p.flag, "", "a `TIME` such as 2030-01-31T00:00:00Z, or ago such as 24h: "+help)
	case asJSON:
		flags.String(p.flag, "", "in `JSON`: "+help)
	case asText, asBranch:
		flags.String(p.flag, p.defaultValue, help)
	}
	if p.allowEmpty || p.emptyIsValue {
		allowEmpty(flags, p.flag)
	}
}

// value returns the value of the flag. If the flag is not set, it returns the default value, or nil if there is none.
// Its errors are usage errors. They can contain the name of a file, but no other input.
func (p parameter) value(flags *pflag.FlagSet, reader *flagReader, now func() time.Time) (any, error) {
	f := flags.Lookup(p.flag)
	if !f.Changed {
		switch {
		case p.defaultValue != "" && p.kind == asList:
			return []string{p.defaultValue}, nil
		case p.defaultValue != "":
			return p.defaultValue, nil
		}
		return nil, nil
	}
	value, err := p.parse(flags, f.Value.String(), reader, now)
	if err != nil {
		return nil, exit.WithCode(exit.Usage, err)
	}
	return value, nil
}

func (p parameter) parse(flags *pflag.FlagSet, text string, reader *flagReader, now func() time.Time) (any, error) {
	switch p.kind {
	case asBool:
		return strconv.ParseBool(text)
	case asNumber:
		return strconv.ParseInt(text, 10, 64)
	case asList:
		list, err := flags.GetStringArray(p.flag)
		if err == nil && p.allowAll && slices.Equal(list, []string{"all"}) {
			return "all", nil
		}
		return list, err
	case asPairs, asTags:
		return p.pairs(flags)
	case asFile:
		content, err := reader.readFile(p.flag, text)
		return trimNewline(content), err
	case asTime:
		return parseTime(p.flag, text, now, false)
	case asPastTime:
		return parseTime(p.flag, text, now, true)
	case asJSON:
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("--%s takes JSON, and what is typed is none: mind the shell's quotes", p.flag)
		}
		return json.RawMessage(text), nil
	case asBranch:
		return branchName(p.flag, text)
	case asText:
	}
	if len(p.choices) > 0 && !slices.Contains(p.choices, text) {
		return nil, fmt.Errorf("--%s is one of %s", p.flag, strings.Join(p.choices, ", "))
	}
	return text, nil
}

// trimNewline returns the text of a file without its last line break, which editors add.
func trimNewline(content []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
}

func (p parameter) pairs(flags *pflag.FlagSet) (any, error) {
	list, err := flags.GetStringArray(p.flag)
	if err != nil {
		return nil, err
	}
	pairs := make(map[string]string, len(list))
	for _, pair := range list {
		name, value, ok := strings.Cut(pair, "=")
		if p.kind == asTags {
			name = "tag." + name
		}
		if _, duplicate := pairs[name]; !ok || strings.HasSuffix(name, ".") || name == "" || duplicate {
			return nil, fmt.Errorf("--%s takes NAME=VALUE, each name once", p.flag)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// parseTime parses an instant (RFC 3339) or a duration, and returns the time in UTC. A duration is added to the current
// time, or subtracted from it if past is true.
func parseTime(flag, text string, now func() time.Time, past bool) (string, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		if past {
			d = -d
		}
		return now().Add(d).UTC().Format(time.RFC3339), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", fmt.Errorf("--%s takes a time such as 2030-01-31T00:00:00Z, or how far it is from now, such as 720h", flag)
	}
	return at.UTC().Format(time.RFC3339Nano), nil
}

// parameterValues returns the arguments of a call. args are the values of the positional arguments, in the order of
// params. parameterValues returns an error if a required flag is missing.
func parameterValues(
	params []parameter, flags *pflag.FlagSet, args []string, reader *flagReader, now func() time.Time,
) (map[string]any, error) {
	arguments := map[string]any{}
	var missing []string
	for _, p := range params {
		if p.placeholder != "" {
			if args[0] == "" {
				return nil, exit.WithCode(exit.Usage, fmt.Errorf("%s is empty", p.placeholder))
			}
			arguments[p.argument], args = args[0], args[1:]
			continue
		}
		value, err := p.value(flags, reader, now)
		if err != nil {
			return nil, err
		}
		if p.allowEmpty && value == "" {
			continue
		}
		if text, isString := value.(string); p.required && (value == nil || isString && text == "" && p.kind == asText) {
			missing = append(missing, "--"+p.flag)
			continue
		}
		if value != nil {
			arguments[p.argument] = value
		}
	}
	if len(missing) > 0 {
		return nil, exit.WithCode(exit.Usage, errors.New("it needs "+strings.Join(missing, " and ")))
	}
	return arguments, nil
}

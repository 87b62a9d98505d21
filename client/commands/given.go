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

// kind is how a value is typed.
type kind int

const (
	// asText is a text as it is typed.
	asText kind = iota
	// asBool is a flag alone, or with =false.
	asBool
	// asNumber is a whole number.
	asNumber
	// asList is typed once for each entry; "all" alone is the text all where allOr is set.
	asList
	// asPairs is NAME=VALUE, once for each: an object of texts.
	asPairs
	// asTags is the same for a query that asks for tags: its members are called tag.NAME.
	asTags
	// asJSON is any value in JSON.
	asJSON
	// asFile names a file with the text, - for stdin: a certificate, or what is a secret.
	asFile
	// asTime is an instant (RFC 3339), or a time from now on, such as 720h.
	asTime
	// asAgo is an instant, or how long ago it was.
	asAgo
)

// given is an argument of an operation as a command by hand takes it: as a word, or by a flag.
type given struct {
	// argument is the operation's, and word what help calls it where it is a word and no flag.
	argument, word, flag string
	// text is the flag's help, and sample what stands in examples.
	text, sample string
	kind         kind
	required     bool
	// emptied has an empty text be typed on purpose, for no argument.
	emptied bool
	// allOr has a list whose one entry is "all" be that text.
	allOr bool
	// choices are all that may be typed, nil for anything, and preset is taken where nothing is typed.
	choices []string
	preset  string
}

// must is the same, required.
func (g given) must(sample string) given {
	g.required, g.sample = true, sample
	return g
}

// or is the same with what is taken where nothing is typed.
func (g given) or(preset string) given {
	g.preset = preset
	return g
}

// register adds the flag.
func (g given) register(flags *pflag.FlagSet) {
	text := g.text
	if len(g.choices) > 0 {
		text += ": " + strings.Join(g.choices, ", ")
	}
	switch g.kind {
	case asBool:
		flags.Bool(g.flag, false, text)
	case asNumber:
		flags.Int64(g.flag, 0, text)
	case asList:
		flags.StringArray(g.flag, nil, text+"; once for each")
	case asPairs, asTags:
		flags.StringArray(g.flag, nil, "`NAME=VALUE`: "+text+"; once for each")
	case asFile:
		flags.String(g.flag, "", "a `FILE` with "+text+", - for stdin")
	case asTime:
		flags.String(g.flag, "", "a `TIME` such as 2030-01-31T00:00:00Z, or from now on such as 720h: "+text)
	case asAgo:
		flags.String(g.flag, "", "a `TIME` such as 2030-01-31T00:00:00Z, or ago such as 24h: "+text)
	case asJSON:
		flags.String(g.flag, "", "in `JSON`: "+text)
	case asText:
		flags.String(g.flag, g.preset, text)
	}
}

// value is what is typed, nil for nothing. Its errors are usage errors, and repeat nothing that was typed.
func (g given) value(flags *pflag.FlagSet, stdin *onceRead, now func() time.Time) (any, error) {
	f := flags.Lookup(g.flag)
	if !f.Changed {
		switch {
		case g.preset != "" && g.kind == asList:
			return []string{g.preset}, nil
		case g.preset != "":
			return g.preset, nil
		}
		return nil, nil
	}
	value, err := g.read(flags, f.Value.String(), stdin, now)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return value, nil
}

func (g given) read(flags *pflag.FlagSet, text string, stdin *onceRead, now func() time.Time) (any, error) {
	switch g.kind {
	case asBool:
		return strconv.ParseBool(text)
	case asNumber:
		return strconv.ParseInt(text, 10, 64)
	case asList:
		list, err := flags.GetStringArray(g.flag)
		if err == nil && g.allOr && slices.Equal(list, []string{"all"}) {
			return "all", nil
		}
		return list, err
	case asPairs, asTags:
		return g.pairs(flags)
	case asFile:
		content, err := stdin.file(g.flag, text)
		return oneText(content), err
	case asTime:
		return instant(g.flag, text, now, false)
	case asAgo:
		return instant(g.flag, text, now, true)
	case asJSON:
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("--%s takes JSON, and what is typed is none: mind the shell's quotes", g.flag)
		}
		return json.RawMessage(text), nil
	case asText:
	}
	if len(g.choices) > 0 && !slices.Contains(g.choices, text) {
		return nil, fmt.Errorf("--%s is one of %s", g.flag, strings.Join(g.choices, ", "))
	}
	return text, nil
}

// oneText is what a file holds, without the end of its last line, which editors add.
func oneText(content []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
}

func (g given) pairs(flags *pflag.FlagSet) (any, error) {
	list, err := flags.GetStringArray(g.flag)
	if err != nil {
		return nil, err
	}
	pairs := make(map[string]string, len(list))
	for _, pair := range list {
		name, value, ok := strings.Cut(pair, "=")
		if g.kind == asTags {
			name = "tag." + name
		}
		if _, twice := pairs[name]; !ok || strings.HasSuffix(name, ".") || name == "" || twice {
			return nil, fmt.Errorf("--%s takes NAME=VALUE, each name once", g.flag)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// instant is a time that is typed as one, or as how far it is from now on, or how far back, in UTC.
func instant(flag, text string, now func() time.Time, back bool) (string, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		if back {
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

// typed are the arguments of a call by hand: words in their order, then flags.
func typed(all []given, flags *pflag.FlagSet, words []string, stdin *onceRead, now func() time.Time) (map[string]any, error) {
	arguments := map[string]any{}
	var missing []string
	for _, g := range all {
		if g.word != "" {
			if words[0] == "" {
				return nil, exit.With(exit.Usage, fmt.Errorf("%s is empty", g.word))
			}
			arguments[g.argument], words = words[0], words[1:]
			continue
		}
		value, err := g.value(flags, stdin, now)
		if err != nil {
			return nil, err
		}
		if g.emptied && value == "" {
			continue
		}
		if text, isText := value.(string); g.required && (value == nil || isText && text == "" && g.kind == asText) {
			missing = append(missing, "--"+g.flag)
			continue
		}
		if value != nil {
			arguments[g.argument] = value
		}
	}
	if len(missing) > 0 {
		return nil, exit.With(exit.Usage, errors.New("it needs "+strings.Join(missing, " and ")))
	}
	return arguments, nil
}

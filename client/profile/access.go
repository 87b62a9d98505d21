package profile

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/client/exit"
)

// Typed is what the command line says about whom to speak to, "" for nothing.
type Typed struct{ Profile, URL, Account string }

// Access is an installation, and as whom to speak to it.
type Access struct {
	// Origin is the management API's.
	Origin *url.URL
	// Account is "" where neither the profile nor anybody else names one: that of the key.
	Account string
	// Profile is the profile's name, "" for none.
	Profile string
	// KeyFrom says where the key comes from: the name of a variable, or what Source says of the profile; "" where there is none.
	KeyFrom string
	key     source
}

// Decide puts together what is typed, what the environment says and what the profile has, in this order. Another origin
// than the profile's does not get the profile's key.
func (p *Profiles) Decide(typed Typed, getenv func(string) string) (Access, error) {
	name := first(typed.Profile, getenv(VarName), p.Current)
	has, there := p.Profiles[name]
	if name != "" && !there {
		return Access{}, exit.With(exit.Usage, fmt.Errorf("there is no profile %q: `gatewright profile list` has them, and `gatewright login` makes one", name))
	}
	address := first(typed.URL, getenv(VarURL), has.URL)
	if address == "" {
		return Access{}, exit.With(exit.Usage, fmt.Errorf("it is not known which installation is meant: `gatewright login` keeps its address and a key, or set %s and %s", VarURL, VarKeyFile))
	}
	a := Access{Profile: name, Account: first(typed.Account, getenv(VarAccount), has.Account)}
	var err error
	if a.Origin, err = Origin(address); err != nil {
		if typed.URL == "" && getenv(VarURL) == "" {
			err = fmt.Errorf("the profile %q: %w", name, err)
		}
		return Access{}, err
	}
	if a.key, a.KeyFrom, err = environmentSource(getenv); err != nil || a.key != nil {
		return a, err
	}
	if !there || has.Source() == "none" {
		return a, nil
	}
	own, err := Origin(has.URL)
	if err != nil {
		return Access{}, fmt.Errorf("the profile %q: %w", name, err)
	}
	if own.String() != a.Origin.String() {
		return Access{}, exit.With(exit.Usage, fmt.Errorf("the key of the profile %q is for %s, and goes nowhere else: set %s, or make a profile for %s", name, own, VarKeyFile, a.Origin))
	}
	a.key, a.KeyFrom = has.source(), has.Source()
	return a, nil
}

// HasKey reports whether there is a key, which Key may still not be able to read.
func (a Access) HasKey() bool { return a.key != nil }

func first(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
	return ""
}

// errNoKey is for what needs a key where there is none.
var errNoKey = exit.With(exit.Usage, errors.New("there is no key: `gatewright login` keeps one, or set "+VarKeyFile+" to a file with it"))

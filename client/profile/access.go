package profile

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/client/exit"
)

// Overrides has the profile, URL and account of the command line, each "" if it is not given.
type Overrides struct{ Profile, URL, Account string }

// Access is an installation with the key for it.
type Access struct {
	// Origin is the address of the management API.
	Origin *url.URL
	// Account is the selected account, "" for the account of the key.
	Account string
	// Profile is the name of the profile, "" for none.
	Profile string
	// KeySource describes where the key comes from: the name of an environment variable, or the result of
	// Profile.Source. It is "" if there is no key.
	KeySource string
	// readKey reads the key. It is nil if there is no key.
	readKey keyReader
}

// Resolve determines the installation, the account and the key. The command line has precedence over the environment,
// and the environment over the profile. Resolve never uses the profile's key for another origin.
func (p *Profiles) Resolve(overrides Overrides, getenv func(string) string) (Access, error) {
	name := firstNonEmpty(overrides.Profile, getenv(VarProfile), p.Current)
	selected, exists := p.Profiles[name]
	if name != "" && !exists {
		return Access{},
			exit.WithCode(exit.Usage, fmt.Errorf("there is no profile %q: `gatewright profile list` has them, and `gatewright "+
				"login` makes one", name))
	}
	address := firstNonEmpty(overrides.URL, getenv(VarURL), selected.URL)
	if address == "" {
		return Access{}, exit.WithCode(exit.Usage, fmt.Errorf("it is not known which installation is meant: `gatewright "+
			"login` keeps its address and a key, or set %s and %s", VarURL, VarKeyFile))
	}
	a := Access{Profile: name, Account: firstNonEmpty(overrides.Account, getenv(VarAccount), selected.Account)}
	var err error
	if a.Origin, err = ParseOrigin(address); err != nil {
		if overrides.URL == "" && getenv(VarURL) == "" {
			err = fmt.Errorf("the profile %q: %w", name, err)
		}
		return Access{}, err
	}
	if a.readKey, a.KeySource, err = environmentKeyReader(getenv); err != nil || a.readKey != nil {
		return a, err
	}
	if !exists || selected.Source() == "none" {
		return a, nil
	}
	profileOrigin, err := ParseOrigin(selected.URL)
	if err != nil {
		return Access{}, fmt.Errorf("the profile %q: %w", name, err)
	}
	if profileOrigin.String() != a.Origin.String() {
		return Access{},
			exit.WithCode(exit.Usage, fmt.Errorf("the key of the profile %q is for %s, and goes nowhere else: set %s, or make "+
				"a profile for %s", name, profileOrigin, VarKeyFile, a.Origin))
	}
	a.readKey, a.KeySource = selected.keyReader(), selected.Source()
	return a, nil
}

// HasKey reports whether a key is configured. Key can still fail to read it.
func (a Access) HasKey() bool { return a.readKey != nil }

func firstNonEmpty(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
	return ""
}

// errNoKey is the error of Access.Key if no key is configured.
var errNoKey = exit.WithCode(exit.Usage, errors.New("there is no key: `gatewright login` keeps one, or set "+
	VarKeyFile+" to a file with it"))

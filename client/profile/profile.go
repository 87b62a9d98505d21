// Package profile keeps whom the client speaks to and as whom: profiles with an installation's address, an account and
// where its key comes from.
//
// The file is the user's alone (0600, refused where others can read it), and an OS keyring is not used: it fails where
// nobody is logged in at a screen. A key goes to the origin of its profile alone, and by plain HTTP to this machine alone.
//
// Read profile.go first, then access.go, which decides between profiles, flags and the environment; key.go reads a key.
package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/disk"
)

// Profile is an installation, and who speaks to it.
type Profile struct {
	// URL is the origin of the management API, such as https://api.example.com.
	URL string `json:"url"`
	// Account is the account that commands are about where none is named, "" for that of the key.
	Account string `json:"account,omitempty"`
	// Key is the account key's text, KeyFile a file with it, and KeyCommand what prints it, as the shell reads it. One is set at most.
	Key        string `json:"key,omitempty"`
	KeyFile    string `json:"keyFile,omitempty"`
	KeyCommand string `json:"keyCommand,omitempty"`
}

// Source says in a word where the profile's key comes from.
func (p Profile) Source() string {
	switch {
	case p.KeyCommand != "":
		return "a command"
	case p.KeyFile != "":
		return "the file " + p.KeyFile
	case p.Key != "":
		return "the profile"
	}
	return "none"
}

// Address is the profile's URL for people: what Origin refuses of one that was written by hand may be a password or a token, and is masked.
func (p Profile) Address() string {
	if _, err := Origin(p.URL); err == nil {
		return p.URL
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" {
		return masked
	}
	host, rest := u.Host, ""
	if u.User != nil {
		host = masked + "@" + host
	}
	if u.RawQuery != "" || u.Fragment != "" {
		rest = "?" + masked
	}
	return u.Scheme + "://" + host + u.EscapedPath() + rest
}

// masked stands in the place of what may be secret.
const masked = "****"

// Profiles are those of a user.
type Profiles struct {
	// Current is the one that holds where none is named, "" for none.
	Current  string             `json:"current,omitempty"`
	Profiles map[string]Profile `json:"profiles"`
}

// Names are those of the profiles, in order.
func (p *Profiles) Names() []string { return slices.Sorted(maps.Keys(p.Profiles)) }

// nameCharacters are those of a profile's name.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// longestName is how long one is at most.
const longestName = 63

// CheckName says what is wrong with a name for a profile.
func CheckName(name string) error {
	if name == "" || len(name) > longestName || strings.Trim(name, nameCharacters) != "" || strings.ContainsRune("._-", rune(name[0])) {
		return exit.With(exit.Usage, errors.New("a profile's name has 1 to 63 letters, digits, dots, dashes and underscores, and begins with a letter or a digit"))
	}
	return nil
}

// The variables of the environment that the client reads.
const (
	// VarFile is the file with the profiles, VarName the profile.
	VarFile = config.VarClientProfiles
	VarName = config.VarClientProfile
	// VarURL and VarAccount go before those of the profile.
	VarURL     = config.VarClientURL
	VarAccount = config.VarClientAccount
	// VarKey is a key's text, VarKeyFile a file with it: one of them at most. They go before what the profile has.
	VarKey     = config.VarClientKey
	VarKeyFile = config.VarKeyFile
)

// Path is where a user's profiles are.
func Path(getenv func(string) string) (string, error) {
	if path := getenv(VarFile); path != "" {
		return path, nil
	}
	home, err := os.UserConfigDir()
	if err != nil {
		return "", exit.With(exit.Usage, fmt.Errorf("there is no folder for the profiles: set %s to a file for them (%w)", VarFile, err))
	}
	return filepath.Join(home, "gatewright", "profiles.json"), nil
}

// Load reads the profiles, none where there is no file. A file that others can read is refused.
func Load(path string) (*Profiles, error) {
	p := &Profiles{Profiles: map[string]Profile{}}
	text, err := Private(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
		return nil, exit.With(exit.Usage, fmt.Errorf("read the profiles: %w", err))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(p)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("there is more after the profiles, which the next login would lose") // such as the other side of a merge
	}
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("the profiles in %s cannot be read: %w", path, err))
	}
	if p.Profiles == nil {
		p.Profiles = map[string]Profile{}
	}
	return p, nil
}

// mostBytes bounds what is read of a file of profiles, or with a key.
const mostBytes = 1 << 20

// Private reads a file that is its user's alone: one that others can read is refused, since it holds a key.
func Private(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, disk.Cause(err))
	case info.Mode().IsRegular() && disk.Exposed(info.Mode()):
		return nil, fmt.Errorf("others can read %s, and it holds a key: chmod 600 %[1]s", path)
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", path)
	}
	f, err := os.Open(path) //nolint:gosec // G304: a path that the user has named
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, disk.Cause(err))
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1)) // a device or a pipe has no size
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, disk.Cause(err))
	case len(text) > mostBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", path, mostBytes)
	}
	return text, nil
}

// Save writes the profiles, whole or not at all, for the user alone.
func (p *Profiles) Save(path string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	return WritePrivate(path, append(text, '\n'))
}

// WritePrivate writes a file that is the user's alone, whole or not at all, and makes its folder. Of a link it is the file that it leads to: a key that
// is forgotten would stay there.
func WritePrivate(path string, text []byte) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", folder, disk.Cause(err))
	}
	made, err := os.CreateTemp(folder, ".gatewright-*") // which is 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, disk.Cause(err))
	}
	_, err = made.Write(text)
	if err == nil {
		err = made.Sync()
	}
	if err = errors.Join(err, made.Close()); err == nil {
		err = os.Rename(made.Name(), path)
	}
	if err != nil {
		_ = os.Remove(made.Name())
		return fmt.Errorf("write %s: %w", path, disk.Cause(err))
	}
	return nil
}

// Origin reads an installation's address. A key goes there, so that it is https, but on this machine. It may have a path, as the address that API Gateway
// gives a stage has.
func Origin(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		return nil, exit.With(exit.Usage, errors.New("an installation's address begins with https://, such as https://api.example.com, and that of one on this machine with http://"))
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http", u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "", !plainPath(u.EscapedPath()):
		return nil, exit.With(exit.Usage, errors.New("an installation's address is that of its management API, such as https://api.example.com, without user and query"))
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		return nil, exit.With(exit.Usage, errors.New("it is an http address of another machine, and whoever is in between would read the key: write https"))
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// plainPath reports whether a path is none, or one that nobody reads as another one: without empty parts, dots and escapes.
func plainPath(text string) bool {
	if text == "" || text == "/" {
		return true
	}
	text = strings.TrimSuffix(text, "/")
	return path.Clean(text) == text && !strings.ContainsRune(text, '%') && text != "/"
}

// Loopback reports whether a host is this machine itself, by its name: nobody is asked.
func Loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

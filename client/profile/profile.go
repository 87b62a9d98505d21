// Package profile stores the client's profiles. A profile is the address of an installation, an account and the source
// of a key.
//
// Only the user may read the file of profiles: it has mode 0600, and is refused if others can read it. An OS keyring is
// not used, because it fails without a graphical session. A key is sent only to the origin of its profile. It is sent
// over plain HTTP only to this machine.
//
// The package sends no requests. Read profile.go first, then access.go, which combines profiles, flags and the
// environment. key.go reads a key.
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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/config"
)

// Profile is an installation with the key for it.
type Profile struct {
	// URL is the origin of the management API, such as https://api.example.com.
	URL string `json:"url"`
	// Account is the default account of commands, "" for the account of the key.
	Account string `json:"account,omitempty"`
	// Key is the text of the account key. KeyFile is a file with the key. KeyCommand is a shell command that prints the
	// key. At most one of these fields is set.
	Key        string `json:"key,omitempty"`
	KeyFile    string `json:"keyFile,omitempty"`
	KeyCommand string `json:"keyCommand,omitempty"`
}

// Source describes where the profile's key comes from. It returns "none" if the profile has no key.
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

// Address returns the profile's URL for output. If a user has written a URL by hand that ParseOrigin refuses, the parts
// of the URL that may be a password or a token are masked.
func (p Profile) Address() string {
	if _, err := ParseOrigin(p.URL); err == nil {
		return p.URL
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" {
		return masked
	}
	host, suffix := u.Host, ""
	if u.User != nil {
		host = masked + "@" + host
	}
	if u.RawQuery != "" || u.Fragment != "" {
		suffix = "?" + masked
	}
	return u.Scheme + "://" + host + u.EscapedPath() + suffix
}

// masked replaces text that may be secret.
const masked = "****"

// Profiles are the profiles of a user.
type Profiles struct {
	// Current is the default profile, "" for none.
	Current  string             `json:"current,omitempty"`
	Profiles map[string]Profile `json:"profiles"`
}

// Names returns the names of the profiles, sorted.
func (p *Profiles) Names() []string { return slices.Sorted(maps.Keys(p.Profiles)) }

// nameCharacters are the characters that a profile's name can have.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// maxNameLength is the maximum length of a profile's name.
const maxNameLength = 63

// CheckName returns an error that says what is wrong with a profile's name.
func CheckName(name string) error {
	if name == "" || len(name) > maxNameLength || strings.Trim(name, nameCharacters) != "" ||
		strings.ContainsRune("._-", rune(name[0])) {
		return exit.WithCode(exit.Usage, errors.New("a profile's name has 1 to 63 letters, digits, dots, dashes and "+
			"underscores, and begins with a letter or a digit"))
	}
	return nil
}

// These are the environment variables that the client reads.
const (
	// VarFile is the path of the file with the profiles. VarProfile is the name of the profile.
	VarFile    = config.VarClientProfiles
	VarProfile = config.VarClientProfile
	// VarURL and VarAccount override the URL and the account of the profile.
	VarURL     = config.VarClientURL
	VarAccount = config.VarClientAccount
	// VarKey is the text of a key. VarKeyFile is a file with a key. At most one of them can be set. They override the
	// profile's key.
	VarKey     = config.VarClientKey
	VarKeyFile = config.VarKeyFile
)

// Path returns the path of the user's profiles.
func Path(getenv func(string) string) (string, error) {
	if path := getenv(VarFile); path != "" {
		return path, nil
	}
	home, err := os.UserConfigDir()
	if err != nil {
		return "", exit.WithCode(exit.Usage, fmt.Errorf("there is no folder for the profiles: set %s to a file for them (%w)",
			VarFile, err))
	}
	return filepath.Join(home, "gatewright", "profiles.json"), nil
}

// Load reads the profiles. A missing file has no profiles. Load returns an error for a file that others can read.
func Load(path string) (*Profiles, error) {
	p := &Profiles{Profiles: map[string]Profile{}}
	text, err := ReadPrivate(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("read the profiles: %w", err))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(p)
	if _, trailing := d.Token(); err == nil && !errors.Is(trailing, io.EOF) {
		// The further text may be another version of the profiles, such as after a merge.
		err = errors.New("there is more after the profiles, which the next login would lose")
	}
	if err != nil {
		return nil, exit.WithCode(exit.Usage, fmt.Errorf("the profiles in %s cannot be read: %w", path, err))
	}
	if p.Profiles == nil {
		p.Profiles = map[string]Profile{}
	}
	return p, nil
}

// maxFileSize is the maximum size in bytes of a file of profiles, or of a file with a key.
const maxFileSize = 1 << 20

// ReadPrivate reads a file that contains a key. It returns an error for a regular file that others can read, for a
// folder, and for a file of more than maxFileSize bytes.
func ReadPrivate(path string) ([]byte, error) {
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
	text, err := disk.ReadAtMost(f, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, disk.Cause(err))
	}
	return text, nil
}

// Save writes the profiles to a file that only the user can read. If it fails, the old file stays complete.
func (p *Profiles) Save(path string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	return WritePrivate(path, append(text, '\n'))
}

// WritePrivate writes a file that only the user can read, and creates its folder. If it fails, the old file stays
// complete. If path is a symbolic link, WritePrivate replaces the target of the link: otherwise a key that was removed
// would remain in the target.
func WritePrivate(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", folder, disk.Cause(err))
	}
	temp, err := os.CreateTemp(folder, ".gatewright-*") // CreateTemp uses mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, disk.Cause(err))
	}
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("write %s: %w", path, disk.Cause(err))
	}
	return nil
}

// ParseOrigin parses an installation's address. Except for this machine, the scheme must be https, because a key is
// sent to the address. The address can have a path, like the addresses of API Gateway stages.
func ParseOrigin(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		return nil, exit.WithCode(exit.Usage, errors.New("an installation's address begins with https://, such as "+
			"https://api.example.com, and that of one on this machine with http://"))
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http", u.User != nil, u.RawQuery != "",
		u.ForceQuery, u.Fragment != "", !isPlainPath(u.EscapedPath()):
		return nil, exit.WithCode(exit.Usage, errors.New("an installation's address is that of its management API, such as "+
			"https://api.example.com, without user and query"))
	case u.Scheme == "http" && !IsLoopback(u.Hostname()):
		return nil, exit.WithCode(exit.Usage, errors.New("it is an http address of another machine, and whoever is in "+
			"between would read the key: write https"))
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// isPlainPath reports whether a path is empty or unambiguous: without empty segments, dot segments and escapes.
func isPlainPath(text string) bool {
	if text == "" || text == "/" {
		return true
	}
	text = strings.TrimSuffix(text, "/")
	return path.Clean(text) == text && !strings.ContainsRune(text, '%') && text != "/"
}

// IsLoopback reports whether a host is this machine. It decides by the name or address, without the DNS.
func IsLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

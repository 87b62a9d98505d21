package backup

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/seal"
)

const (
	product = "gatewright"
	// format is the version of the archive's format. The engine has its own version for the format of its files.
	format = 1

	manifestName = "manifest.json"
	// maxManifestBytes is enough for more than a million files.
	maxManifestBytes = 256 << 20

	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// manifest is the first file of a backup.
type manifest struct {
	Product   string    `json:"product"`
	Format    int       `json:"format"`
	CreatedOn time.Time `json:"madeOn"`
	Files     []entry   `json:"files"`
}

// entry describes one of the files that follow the manifest in the archive.
type entry struct {
	Name   string `json:"name"` // relative to the data directory, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// enginePattern and objectPattern match the names of files that a backup may contain in addition to the keys. All other
// names are rejected, such as names of files outside of the directory. digestPattern matches a digest.
var (
	enginePattern = regexp.MustCompile(
		`^engine/(acknowledged|pebble/([0-9]{6,20}\.(sst|log)|(MANIFEST|OPTIONS)-[0-9]{6,20}|CURRENT|` +
			`marker\.[a-z-]{1,40}\.[0-9]{6,20}\.[A-Z0-9-]{1,40}))$`)
	objectPattern = regexp.MustCompile(`^objects/[0-9a-f]{2}/[0-9a-f]{64}$`)
	digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// maxKeyBytes is the maximum size of the file with an account key. Every account key is shorter.
const maxKeyBytes = 4096

// check returns an error that describes what is wrong with the manifest, or nil.
func (m *manifest) check() error {
	seen := make(map[string]bool, len(m.Files))
	for _, e := range m.Files {
		if seen[e.Name] {
			return fmt.Errorf("its manifest names %q twice", e.Name)
		}
		seen[e.Name] = true
		if err := e.check(); err != nil {
			return err
		}
	}
	for _, name := range []string{rootkey.Name, datadir.Engine + "/acknowledged"} {
		if !seen[name] {
			return fmt.Errorf("its manifest lacks %s", name)
		}
	}
	return nil
}

// check refuses an entry that no backup of the product has.
func (e entry) check() error {
	var ok bool
	switch {
	case isKeyFile(e.Name):
		ok = e.Bytes == seal.KeyBytes
	case e.Name == datadir.AccountKey:
		ok = e.Bytes <= maxKeyBytes
	case objectPattern.MatchString(e.Name):
		ok = e.Name == datadir.Objects+"/"+files.ContentPath(e.SHA256)
	default:
		ok = enginePattern.MatchString(e.Name)
	}
	if !ok || e.Bytes < 0 || !digestPattern.MatchString(e.SHA256) {
		return fmt.Errorf("its manifest names the file %q with %d bytes, which no backup holds", e.Name, e.Bytes)
	}
	return nil
}

func (m *manifest) writeManifest(archive *tar.Writer) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	if len(raw) > maxManifestBytes {
		return fmt.Errorf("there are %d files, more than a backup can hold: keep fewer sources, or copy the data directory "+
			"while the product is stopped", len(m.Files))
	}
	if err := archive.WriteHeader(header(manifestName, int64(len(raw)), m.CreatedOn)); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	if _, err := archive.Write(raw); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

func (m *manifest) summary() Summary {
	out := Summary{CreatedOn: m.CreatedOn}
	for _, e := range m.Files {
		out.Bytes += e.Bytes
		if isBelow(datadir.Objects, e.Name) {
			out.Objects++
		}
	}
	return out
}

func isBelow(folder, name string) bool { return strings.HasPrefix(name, folder+"/") }

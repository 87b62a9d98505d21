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
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/seal"
)

const (
	product = "gatewright"
	// format is the version of the archive's form. That of the engine's files is
	// the engine's own.
	format = 1

	manifestName = "manifest.json"
	// maxManifestBytes is room for more than a million files.
	maxManifestBytes = 256 << 20

	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// manifest is the first file of a backup.
type manifest struct {
	Product string    `json:"product"`
	Format  int       `json:"format"`
	MadeOn  time.Time `json:"madeOn"`
	Files   []entry   `json:"files"`
}

// entry is one of the files that follow, in the order of the manifest.
type entry struct {
	Name   string `json:"name"` // below the data directory, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// A backup has these files alone: whatever a name is that is none of them, such
// as one that leads out of the directory, it is refused.
var (
	engineName = regexp.MustCompile(`^engine/(acknowledged|pebble/([0-9]{6,20}\.(sst|log)|(MANIFEST|OPTIONS)-[0-9]{6,20}|CURRENT|marker\.[a-z-]{1,40}\.[0-9]{6,20}\.[A-Z0-9-]{1,40}))$`)
	objectName = regexp.MustCompile(`^objects/[0-9a-f]{2}/[0-9a-f]{64}$`)
	digestText = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// maxKeyBytes is above any account key.
const maxKeyBytes = 4096

// check refuses what is no manifest of a backup. Its error says what is wrong
// with it.
func (m *manifest) check() error {
	there := make(map[string]bool, len(m.Files))
	for _, e := range m.Files {
		if there[e.Name] {
			return fmt.Errorf("its manifest names %q twice", e.Name)
		}
		there[e.Name] = true
		if err := e.check(); err != nil {
			return err
		}
	}
	for _, name := range []string{rootkey.Name, datadir.Engine + "/acknowledged"} {
		if !there[name] {
			return fmt.Errorf("its manifest lacks %s", name)
		}
	}
	return nil
}

func (e entry) check() error {
	var ok bool
	switch {
	case keyName(e.Name):
		ok = e.Bytes == seal.KeyBytes
	case e.Name == datadir.AccountKey:
		ok = e.Bytes <= maxKeyBytes
	case objectName.MatchString(e.Name):
		ok = e.Name == datadir.Objects+"/"+files.ContentPath(e.SHA256)
	default:
		ok = engineName.MatchString(e.Name)
	}
	if !ok || e.Bytes < 0 || !digestText.MatchString(e.SHA256) {
		return fmt.Errorf("its manifest names the file %q with %d bytes, which no backup holds", e.Name, e.Bytes)
	}
	return nil
}

func (m *manifest) writeSelf(archive *tar.Writer) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	if len(raw) > maxManifestBytes {
		return fmt.Errorf("there are %d files, more than a backup can hold: keep fewer sources, or copy the data directory while the product is stopped", len(m.Files))
	}
	if err := archive.WriteHeader(header(manifestName, int64(len(raw)), m.MadeOn)); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	if _, err := archive.Write(raw); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

func (m *manifest) summary() Summary {
	out := Summary{MadeOn: m.MadeOn}
	for _, e := range m.Files {
		out.Bytes += e.Bytes
		if within(datadir.Objects, e.Name) {
			out.Objects++
		}
	}
	return out
}

func within(folder, name string) bool { return strings.HasPrefix(name, folder+"/") }

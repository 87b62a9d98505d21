package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/release"
)

// These types are the parts of the format SARIF 2.1.0 (OASIS) that Report.SARIF writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		// ColumnKind says that columns count characters and not UTF-16 units.
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID              string            `json:"ruleId"`
		RuleIndex           int               `json:"ruleIndex"`
		Level               string            `json:"level"`
		Message             sarifMessage      `json:"message"`
		Locations           []sarifLocation   `json:"locations,omitempty"`
		PartialFingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		PhysicalLocation struct {
			ArtifactLocation struct {
				URI       string `json:"uri"`
				URIBaseID string `json:"uriBaseId"`
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
		LogicalLocations []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

// SARIF returns the report in SARIF, the format that scanners use to exchange results. The report has all problems,
// with paths from the top of the repository.
func (r Report) SARIF() ([]byte, error) {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "gatewright", Version: release.Version()}
	indexes := map[string]int{}
	for i, category := range []rule{routesRule, policiesRule, settingsRule, folderRule} {
		indexes[category.id] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules,
			sarifRule{category.id, sarifMessage{"What a build says of " + category.name + "."}})
	}
	for _, f := range r.all() {
		category := r.ruleOf(f)
		result := sarifResult{
			RuleID: category.id, RuleIndex: indexes[category.id], Level: f.level(), Message: sarifMessage{f.Message},
			PartialFingerprints: map[string]string{"problem/v1": fingerprint(r, f)},
		}
		if f.File != "" {
			var location sarifLocation
			location.PhysicalLocation.ArtifactLocation.URI = (&url.URL{Path: r.path(f.File)}).EscapedPath()
			location.PhysicalLocation.ArtifactLocation.URIBaseID = "%SRCROOT%"
			if f.Line > 0 {
				location.PhysicalLocation.Region = &sarifRegion{f.Line, max(1, f.Column)}
			}
			if f.Path != "" {
				location.LogicalLocations = []sarifLogical{{f.Path}}
			}
			result.Locations = []sarifLocation{location}
		}
		run.Results = append(run.Results, result)
	}
	text, err := json.MarshalIndent(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	}, "", "  ")
	return append(text, '\n'), err
}

// WriteFile writes a report to a file. If it fails, the old file stays complete. If name is a symbolic link, WriteFile
// replaces the target of the link, which must exist.
func WriteFile(name string, text []byte) (err error) {
	switch info, err := os.Stat(name); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("write %s: it is no file", name)
	case err == nil:
		link := name
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return fmt.Errorf("write %s: %w", link, disk.Cause(err))
		}
	default:
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("write %s: it is a link to a file that is not there: make that file, or remove the link", name)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, disk.Cause(err))
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // others may read it, such as the next step of a pipeline
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", name, disk.Cause(err))
	}
	return nil
}
